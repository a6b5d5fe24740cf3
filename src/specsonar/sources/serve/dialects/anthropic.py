"""Anthropic messages. The total of tokens is part of every answer, whatever the server tells otherwise."""

from __future__ import annotations

from collections.abc import Iterable

from ..script import Ask, Piece, Script
from ..writer import Json, Refused, Writer, length, limit, sse, stops, wish


def ask(body: Json) -> Ask:
    """What the body of a request asks for.

    Raises
    ------
    Refused : it asks for what there is not.
    """
    if not wish(body, "messages", list):
        raise Refused(400, "messages: Field required")
    most = limit(body, "max_tokens")
    if most is None:
        raise Refused(400, "max_tokens: Field required")
    return Ask(
        model=wish(body, "model", str, ""),
        limit=most,
        stop=stops(body, "stop_sequences"),
        stream=wish(body, "stream", bool, False),
        prompt_tokens=length([body["messages"], body.get("system")]),
    )


class Messages(Writer):
    """`/v1/messages`."""

    def event(self, kind: str, **fields: object) -> bytes:
        return sse({"type": kind, **fields}, kind)

    def message(self, content: list[Json], tokens: int, reason: Json) -> Json:
        answer = self.answer
        return {
            "id": f"msg_{answer.id}", "type": "message", "role": "assistant", "model": answer.model, "content": content,
            **reason, "usage": {"input_tokens": answer.ask.prompt_tokens, "output_tokens": tokens},
        }  # fmt: skip

    def reason(self) -> Json:
        script = self.answer.scripts[0]
        reason = "max_tokens" if script.finish == "length" else "stop_sequence" if script.stopped_by else "end_turn"
        return {"stop_reason": reason, "stop_sequence": script.stopped_by}

    def early(self) -> Iterable[bytes]:
        yield self.event("message_start", message=self.message([], 1, {"stop_reason": None, "stop_sequence": None}))

    def opening(self, choice: int) -> Iterable[bytes]:
        yield self.event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        yield self.event("ping")

    def piece(self, piece: Piece) -> bytes:
        return self.event("content_block_delta", index=0, delta={"type": "text_delta", "text": piece.text})

    def ended(self, script: Script) -> Iterable[bytes]:
        yield self.event("content_block_stop", index=0)

    def closing(self) -> Iterable[bytes]:
        yield self.event("message_delta", delta=self.reason(), usage={"output_tokens": self.answer.tokens})
        yield self.event("message_stop")

    def whole(self) -> Json:
        content = [{"type": "text", "text": self.answer.scripts[0].text}]
        return self.message(content, self.answer.tokens, self.reason())


def error(refused: Refused) -> Json:
    """The body of an error."""
    kind = {401: "authentication_error", 404: "not_found_error", 413: "request_too_large"}.get(
        refused.status, "invalid_request_error"
    )
    return {"type": "error", "error": {"type": kind, "message": refused.message}}
