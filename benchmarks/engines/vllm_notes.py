"""Writes down what vLLM's answers tell of their speculation. Loaded by the server itself: `--middleware`."""

import json
import os
from pathlib import Path


class Notes:
    """Passes everything on unchanged; what is noted comes with the end of an answer, after its last token."""

    def __init__(self, app):
        self._app = app

    async def __call__(self, scope, receive, send):
        """One request."""

        async def passed(message):
            await send(message)
            if message["type"] == "http.response.body" and b'"choices":[]' in message.get("body", b""):
                for line in message["body"].split(b"\n"):
                    _look(line.removeprefix(b"data: "))

        await self._app(scope, receive, passed if scope["type"] == "http" else send)


def _look(line):
    if not line.startswith(b"{"):
        return
    payload = json.loads(line)
    if payload.get("choices") != []:
        return  # only the last event has no choices
    told = (payload.get("metrics") or {}).get("speculative_decoding") or {}
    note = {"tokens": payload["usage"]["completion_tokens"], "accepted": told.get("per_step_accepted") or []}
    with Path(os.environ["SPECSONAR_NOTES"]).open("a") as notes:
        notes.write(json.dumps(note) + "\n")
