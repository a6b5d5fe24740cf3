"""Ollama generate and chat: a line of JSON for each event, which bears the server's own time."""

from __future__ import annotations

import time
from collections.abc import Iterable

from ..script import Ask, Piece, Script
from ..words import PIECES
from ..writer import Json, Refused, Writer, encode, length, limit, stops, wish


def ask(body: Json) -> Ask:
    """What the body of a request asks for.

    Raises
    ------
    Refused : it asks for what there is not.
    """
    options = wish(body, "options", dict, {})
    endless = wish(options, "num_predict", int, -1) < 0
    model = wish(body, "model", str, "").removesuffix(":latest")
    if not model:
        raise Refused(400, "model is required")
    return Ask(
        model=model,
        limit=None if endless else limit(options, "num_predict"),
        stop=stops(options, "stop"),
        stream=wish(body, "stream", bool, True),
        prompt_tokens=length([body.get("prompt"), body.get("messages"), body.get("system")]),
        logprobs=wish(body, "logprobs", bool, False),
    )


def clock(wall_ns: int) -> str:
    """Nanoseconds since 1970 as Ollama writes them."""
    seconds, rest = divmod(wall_ns, 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:09d}Z"


class Generate(Writer):
    """`/api/generate`."""

    media = "application/x-ndjson"

    def content(self, text: str) -> Json:
        return {"response": text}

    def line(self, after_ns: int, text: str, done: bool) -> Json:
        """One line; its time is when the event leaves."""
        answer = self.answer
        return {
            "model": answer.model, "created_at": clock(answer.created_ns + after_ns), **self.content(text),
            "done": done,
        }  # fmt: skip

    def last(self, script: Script, text: str) -> Json:
        answer = self.answer
        total, prompt = int(script.done_ns[-1]), int(script.done_ns[0])
        counts = {"prompt_eval_count": answer.ask.prompt_tokens, "eval_count": script.tokens}
        return {
            **self.line(total, text, True), "done_reason": script.finish, "total_duration": total, "load_duration": 0,
            "prompt_eval_duration": prompt, "eval_duration": total - prompt,
            **(counts if answer.told != "none" else {}),
        }  # fmt: skip

    def piece(self, piece: Piece) -> bytes:
        line = self.line(piece.due_ns, piece.text, False)
        if self.answer.ask.logprobs:
            line["logprobs"] = [{"token": PIECES[i], "logprob": -0.1} for i in piece.ids]
        return encode(line) + b"\n"

    def ended(self, script: Script) -> Iterable[bytes]:
        yield encode(self.last(script, "")) + b"\n"

    def whole(self) -> Json:
        script = self.answer.scripts[0]
        return self.last(script, script.text)


class Chat(Generate):
    """`/api/chat`."""

    def content(self, text: str) -> Json:
        return {"message": {"role": "assistant", "content": text}}


def error(refused: Refused) -> Json:
    """The body of an error."""
    return {"error": refused.message}
