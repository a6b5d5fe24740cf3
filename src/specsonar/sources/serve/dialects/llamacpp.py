"""llama.cpp's own `/completion`, and the `timings` that it puts into every dialect it speaks."""

from __future__ import annotations

from collections.abc import Iterable

from ..script import Ask, Piece, Script
from ..writer import MOST_TOKENS, Answer, Json, Refused, Writer, length, sse, stops, wish


def ask(body: Json) -> Ask:
    """What the body of a request asks for.

    Raises
    ------
    Refused : it asks for what there is not.
    """
    prompt = body.get("prompt")
    if not isinstance(prompt, str | list):
        raise Refused(400, '"prompt" must be a string or an array', param="prompt")
    wanted = wish(body, "n_predict", int, -1)
    if wanted > MOST_TOKENS:
        raise Refused(400, f"n_predict must be at most {MOST_TOKENS}", param="n_predict")
    return Ask(
        limit=wanted if wanted > 0 else None,
        stop=stops(body, "stop"),
        stream=wish(body, "stream", bool, False),
        prompt_tokens=length(prompt),
        timings=wish(body, "timings_per_token", bool, False),
    )


def timings(answer: Answer, script: Script, sofar: int | None = None) -> Json:
    """What llama.cpp says about the time and the drafts of an answer so far; of all of it if `sofar` is None."""
    tokens = script.tokens if sofar is None else sofar
    done_ms = script.done_ns / 1e6
    prompt_ms = float(done_ms[0])
    # All tokens of a step carry the time of the step.
    predicted_ms = max(float(done_ms[script.step_of(tokens - 1)]) - prompt_ms, 0.001)
    made: Json = {
        "cache_n": 0, "prompt_n": answer.ask.prompt_tokens, "prompt_ms": prompt_ms,
        "predicted_n": tokens, "predicted_ms": predicted_ms,
        "predicted_per_token_ms": predicted_ms / tokens, "predicted_per_second": 1e3 * tokens / predicted_ms,
    }  # fmt: skip
    steps = answer.steps(script, sofar)
    if steps is not None and steps.drafted:
        made |= {"draft_n": sum(steps.drafted), "draft_n_accepted": sum(steps.accepted)}
    return made


class Completion(Writer):
    """`/completion`."""

    def piece(self, piece: Piece) -> bytes:
        answer = self.answer
        made: Json = {
            "index": 0, "content": piece.text, "tokens": piece.ids, "stop": False, "id_slot": -1,
            "tokens_predicted": piece.sofar, "tokens_evaluated": answer.ask.prompt_tokens,
        }  # fmt: skip
        if answer.ask.timings:
            made["timings"] = timings(answer, answer.scripts[0], piece.sofar)
        return sse(made)

    def _last(self, script: Script, text: str) -> Json:
        answer = self.answer
        return {
            "index": 0, "content": text, "tokens": [], "id_slot": 0, "stop": True, "model": answer.model,
            "tokens_predicted": script.tokens, "tokens_evaluated": answer.ask.prompt_tokens,
            "generation_settings": {"n_predict": answer.ask.limit or -1, "stop": list(answer.ask.stop)},
            "prompt": "", "has_new_line": False, "truncated": False,
            "stop_type": "limit" if script.finish == "length" else "word" if script.stopped_by else "eos",
            "stopping_word": script.stopped_by or "", "tokens_cached": answer.ask.prompt_tokens + script.tokens,
            "timings": timings(answer, script),
        }  # fmt: skip

    def ended(self, script: Script) -> Iterable[bytes]:
        yield sse(self._last(script, ""))

    def whole(self) -> Json:
        script = self.answer.scripts[0]
        return self._last(script, script.text)


def error(refused: Refused) -> Json:
    """The body of an error."""
    kind = {401: "authentication_error", 404: "not_found_error"}.get(refused.status, "invalid_request_error")
    return {"error": {"code": refused.status, "message": refused.message, "type": kind}}
