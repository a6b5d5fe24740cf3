"""OpenAI Responses, as server-sent events or over a WebSocket, and Realtime, which has the same shape."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from ..script import Ask, Piece, Script
from ..words import PIECES
from ..writer import Answer, Json, Refused, Writer, encode, length, limit, sse, wish


def ask(body: Json) -> Ask:
    """What the body of a request asks for.

    Raises
    ------
    Refused : it asks for what there is not.
    """
    prompt = body.get("input")
    if not isinstance(prompt, str | list) or not prompt:
        raise Refused(400, "input is required", param="input")
    return Ask(
        model=wish(body, "model", str, ""),
        limit=limit(body, "max_output_tokens"),
        stream=wish(body, "stream", bool, False),
        prompt_tokens=length([prompt, body.get("instructions")]),
        logprobs="message.output_text.logprobs" in wish(body, "include", list, []),
    )


def ask_socket(message: Json) -> Ask:
    """The same for a `response.create` message of the Responses WebSocket, which always streams."""
    return ask({**message, "stream": True})


def ask_realtime(message: Json) -> Ask:
    """What a `response.create` message of a Realtime session asks for; what was said before is its prompt."""
    wanted = wish(message, "response", dict, {})
    if wanted.get("max_output_tokens") == "inf":
        wanted = {**wanted, "max_output_tokens": None}
    return Ask(
        model=wish(message, "model", str, ""),
        limit=limit(wanted, "max_output_tokens"),
        stream=True,
        prompt_tokens=length([message.get("said"), wanted.get("input"), wanted.get("instructions")]),
    )


class Responses(Writer):
    """`/v1/responses`."""

    kind: ClassVar = "response"
    created_key: ClassVar = "created_at"
    done: ClassVar = "response.completed"

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer)
        self._number = 0

    def frame(self, payload: Json) -> bytes:
        """The bytes of an event."""
        return sse(payload, payload["type"])

    def stamp(self, payload: Json) -> Json:
        """What every event bears besides its own fields."""
        self._number += 1
        return {"sequence_number": self._number - 1, **payload}

    def event(self, kind: str, **fields: Any) -> bytes:
        return self.frame({"type": kind, **self.stamp(fields)})

    def where(self) -> Json:
        return {"item_id": f"msg_{self.answer.id}", "output_index": 0, "content_index": 0}

    def part(self, text: str) -> Json:
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}

    def item(self, status: str, text: str | None = None) -> Json:
        content = [] if text is None else [self.part(text)]
        return {
            "id": f"msg_{self.answer.id}", "type": "message", "status": status, "role": "assistant", "content": content,
        }  # fmt: skip

    def response(self, status: str, output: list[Json], *, usage: bool = False) -> Json:
        answer = self.answer
        prompt = answer.ask.prompt_tokens
        used = {
            "input_tokens": prompt, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": answer.tokens, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt + answer.tokens,
        }  # fmt: skip
        cut = status == "incomplete"
        return {
            "id": f"resp_{answer.id}", "object": self.kind, self.created_key: answer.created_ns // 1_000_000_000,
            "status": status, "incomplete_details": {"reason": "max_output_tokens"} if cut else None, "error": None,
            "model": answer.model, "output": output, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
            "usage": used if usage and answer.told != "none" else None,
        }  # fmt: skip

    def early(self) -> Iterable[bytes]:
        yield self.event("response.created", response=self.response("in_progress", []))
        yield self.event("response.in_progress", response=self.response("in_progress", []))

    def opening(self, choice: int) -> Iterable[bytes]:
        yield self.event("response.output_item.added", output_index=0, item=self.item("in_progress"))
        yield self.event("response.content_part.added", **self.where(), part=self.part(""))

    def piece(self, piece: Piece) -> bytes:
        ids = piece.ids if self.answer.ask.logprobs else ()
        logprobs = [{"token": PIECES[i], "logprob": -0.1, "top_logprobs": []} for i in ids]
        return self.event("response.output_text.delta", **self.where(), delta=piece.text, logprobs=logprobs)

    def ended(self, script: Script) -> Iterable[bytes]:
        text = script.text
        yield self.event("response.output_text.done", **self.where(), text=text, logprobs=[])
        yield self.event("response.content_part.done", **self.where(), part=self.part(text))
        yield self.event("response.output_item.done", output_index=0, item=self.item(self.status(), text))

    def status(self) -> str:
        return "incomplete" if self.answer.scripts[0].finish == "length" else "completed"

    def final(self) -> Json:
        text = self.answer.scripts[0].text
        return self.response(self.status(), [self.item(self.status(), text)], usage=True)

    def closing(self) -> Iterable[bytes]:
        yield self.event(f"response.{self.status()}", response=self.final())

    def whole(self) -> Json:
        return self.final()


class ResponsesSocket(Responses):
    """The same events as messages of a WebSocket."""

    def frame(self, payload: Json) -> bytes:
        return encode(payload)


class Realtime(ResponsesSocket):
    """An answer of a Realtime session, text only."""

    kind = "realtime.response"

    def stamp(self, payload: Json) -> Json:
        self._number += 1
        return {"event_id": f"event_{self.answer.id}_{self._number}", **payload}

    def event(self, kind: str, **fields: Any) -> bytes:
        named = fields if "response" in fields else {"response_id": f"resp_{self.answer.id}", **fields}
        return super().event(kind, **named)

    def part(self, text: str) -> Json:
        return {"type": "text", "text": text}

    def item(self, status: str, text: str | None = None) -> Json:
        return {"object": "realtime.item", **super().item(status, text)}

    def response(self, status: str, output: list[Json], *, usage: bool = False) -> Json:
        made = super().response(status, output, usage=usage)
        kept = ("id", "object", "status", "output", "usage")
        details = {"type": "incomplete", "reason": "max_output_tokens"} if status == "incomplete" else None
        return {**{key: made[key] for key in kept}, "status_details": details, "output_modalities": ["text"]}

    def early(self) -> Iterable[bytes]:
        yield self.event("response.created", response=self.response("in_progress", []))

    def piece(self, piece: Piece) -> bytes:
        return self.event("response.output_text.delta", **self.where(), delta=piece.text)

    def ended(self, script: Script) -> Iterable[bytes]:
        text = script.text
        yield self.event("response.output_text.done", **self.where(), text=text)
        yield self.event("response.content_part.done", **self.where(), part=self.part(text))
        yield self.event("response.output_item.done", output_index=0, item=self.item(self.status(), text))

    def closing(self) -> Iterable[bytes]:
        yield self.event("response.done", response=self.final())
