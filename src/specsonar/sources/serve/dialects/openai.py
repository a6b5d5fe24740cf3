"""OpenAI chat completions and completions, with what vLLM and llama.cpp add to them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from ..script import Ask, Piece, Script
from ..words import PIECES
from ..writer import MOST_CHOICES, Json, Refused, Writer, length, limit, sse, stops, wish
from .llamacpp import timings


def ask(body: Json, *, chat: bool) -> Ask:
    """What the body of a request asks for.

    Raises
    ------
    Refused : it asks for what there is not.
    """
    prompt = body.get("messages" if chat else "prompt")
    name = "messages" if chat else "prompt"
    if not isinstance(prompt, list if chat else list | str) or not prompt:
        raise Refused(400, f"{name} is required", param=name)
    choices = wish(body, "n", int, 1)
    if not chat and isinstance(prompt, list) and not isinstance(prompt[0], int):
        choices *= len(prompt)
    if not 1 <= choices <= MOST_CHOICES:
        raise Refused(400, f"n must be between 1 and {MOST_CHOICES}", param="n")
    options = wish(body, "stream_options", dict, {})
    stream = wish(body, "stream", bool, False)
    if options and not stream:
        raise Refused(400, "stream_options is for stream = true", param="stream_options")
    logprobs = body.get("logprobs")
    return Ask(
        model=wish(body, "model", str, ""),
        limit=limit(body, "max_completion_tokens", "max_tokens"),
        stop=stops(body, "stop"),
        choices=choices,
        stream=stream,
        prompt_tokens=length(prompt),
        usage=wish(options, "include_usage", bool, False),
        running=wish(options, "continuous_usage_stats", bool, False),
        ids=wish(body, "return_token_ids", bool, False),
        # A number in completions, a switch in chat; 0 in completions still means the sampled token's own.
        logprobs=logprobs is True if chat else logprobs is not None and logprobs is not False,
        timings=wish(body, "timings_per_token", bool, False),
    )


class _OpenAI(Writer):
    kind: ClassVar = ""
    prefix: ClassVar = ""
    llamacpp = False

    def content(self, text: str) -> Json:
        raise NotImplementedError

    def logprobs(self, ids: tuple[int, ...]) -> Json:
        raise NotImplementedError

    def head(self, kind: str) -> Json:
        answer = self.answer
        head: Json = {
            "id": f"{self.prefix}-{answer.id}", "object": kind, "created": answer.created_ns // 1_000_000_000,
            "model": answer.model,
        }  # fmt: skip
        return head | ({"system_fingerprint": answer.fingerprint} if answer.fingerprint else {})

    def chunk(self, choices: list[Json], **rest: Any) -> bytes:
        return sse({**self.head(self.kind), "choices": choices, **rest})

    def choice(self, index: int, content: Json, finish: str | None = None, ids: tuple[int, ...] = ()) -> Json:
        ask = self.answer.ask
        made = {"index": index, **content, "logprobs": None, "finish_reason": finish}
        if ids and ask.logprobs:
            made["logprobs"] = self.logprobs(ids)
        if ids and ask.ids:
            made["token_ids"] = ids
        return made

    def usage(self, tokens: int) -> Json:
        prompt = self.answer.ask.prompt_tokens
        return {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}

    def running(self, tokens: int) -> Json:
        """The running total where it was asked for."""
        if self.answer.ask.running:
            return {"usage": self.usage(tokens)}
        return {"usage": None} if self.answer.ask.usage else {}

    def piece(self, piece: Piece) -> bytes:
        answer = self.answer
        script = answer.scripts[piece.choice]
        finish = script.finish if piece.last and not answer.finish_apart else None
        extra = self.running(piece.sofar)
        if answer.ask.timings:
            extra["timings"] = timings(answer, script, piece.sofar)
        return self.chunk([self.choice(piece.choice, self.content(piece.text), finish, piece.ids)], **extra)

    def ended(self, script: Script) -> Iterable[bytes]:
        if self.answer.finish_apart:
            yield self.chunk([self.choice(script.index, self.nothing(), script.finish)], **self.running(script.tokens))

    def nothing(self) -> Json:
        return self.content("")

    def closing(self) -> Iterable[bytes]:
        answer = self.answer
        extra = self.report()
        if answer.ask.usage and answer.told != "none":
            yield self.chunk([], usage=self.usage(answer.tokens), **extra)
        elif "timings" in extra:
            yield self.chunk([], **extra)
        yield b"data: [DONE]\n\n"

    def report(self) -> Json:
        """What the server says about its own drafts."""
        answer = self.answer
        if self.llamacpp:
            return {"timings": timings(answer, answer.scripts[0])}
        steps = answer.steps(answer.scripts[0])
        if steps is None or not steps.drafted or len(answer.scripts) > 1:
            return {}
        drafts, accepted, drafted = len(steps.drafted), sum(steps.accepted), sum(steps.drafted)
        k = max(steps.drafted)
        return {"metrics": {"speculative_decoding": {
            "mean_acceptance_length": 1 + accepted / drafts,
            "draft_acceptance_rate": accepted / drafted,
            "acceptance_histogram": [steps.accepted.count(j) for j in range(k + 1)],
            "num_spec_steps": drafts,
            "num_accepted_draft_tokens": accepted,
            "num_draft_tokens": drafted,
            "num_spec_tokens": k,
            "per_step_accepted": steps.accepted,
            "per_step_drafted": steps.drafted,
        }}}  # fmt: skip

    def whole(self) -> Json:
        answer = self.answer
        choices = [self.choice(s.index, self.full(s.text), s.finish, tuple(s.ids)) for s in answer.scripts]
        usage = {} if answer.told == "none" else {"usage": self.usage(answer.tokens)}
        return {**self.head(self.kind.removesuffix(".chunk")), "choices": choices, **usage, **self.report()}

    def full(self, text: str) -> Json:
        raise NotImplementedError


class Chat(_OpenAI):
    """`/v1/chat/completions`."""

    kind = "chat.completion.chunk"
    prefix = "chatcmpl"

    def content(self, text: str) -> Json:
        return {"delta": {"content": text}}

    def nothing(self) -> Json:
        return {"delta": {}}

    def full(self, text: str) -> Json:
        return {"message": {"role": "assistant", "content": text}}

    def logprobs(self, ids: tuple[int, ...]) -> Json:
        return {"content": [
            {"token": PIECES[i], "logprob": -0.1, "bytes": list(PIECES[i].encode()), "top_logprobs": []} for i in ids
        ]}  # fmt: skip

    def opening(self, choice: int) -> Iterable[bytes]:
        role = {"delta": {"role": "assistant", "content": ""}}
        yield self.chunk([self.choice(choice, role)], **self.running(0))


class Completions(_OpenAI):
    """`/v1/completions`."""

    kind = "text_completion"
    prefix = "cmpl"

    def content(self, text: str) -> Json:
        return {"text": text}

    full = content

    def logprobs(self, ids: tuple[int, ...]) -> Json:
        tokens = [PIECES[i] for i in ids]
        return {"tokens": tokens, "token_logprobs": [-0.1] * len(ids), "top_logprobs": None, "text_offset": []}


class LlamaChat(Chat):
    """The same as llama.cpp answers it."""

    llamacpp = True


class LlamaCompletions(Completions):
    """The same as llama.cpp answers it."""

    llamacpp = True


def error(refused: Refused) -> Json:
    """The body of an error."""
    kind = refused.kind or ("authentication_error" if refused.status == 401 else "invalid_request_error")
    return {"error": {"message": refused.message, "type": kind, "param": refused.param, "code": refused.code or None}}
