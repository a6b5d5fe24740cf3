"""Text Generation Inference: an event for each token, always; the tokens of one step may share a write."""

from __future__ import annotations

from ..script import Ask, Piece, Script
from ..words import PIECES
from ..writer import Json, Refused, Writer, encode, length, limit, stops, wish


def ask(body: Json, *, stream: bool | None = None) -> Ask:
    """What the body of a request asks for; `stream` where the route decides that.

    Raises
    ------
    Refused : it asks for what there is not.
    """
    prompt = wish(body, "inputs", str)
    if not prompt:
        raise Refused(400, "Input validation error: `inputs` cannot be empty")
    parameters = wish(body, "parameters", dict, {})
    return Ask(
        limit=limit(parameters, "max_new_tokens"),
        stop=stops(parameters, "stop"),
        stream=wish(body, "stream", bool, False) if stream is None else stream,
        prompt_tokens=length(prompt),
    )


class Generate(Writer):
    """`/generate` and `/generate_stream`."""

    def piece(self, piece: Piece) -> bytes:
        script = self.answer.scripts[0]
        events = []
        for place, token in enumerate(piece.ids, piece.before + 1):
            event: Json = {
                "index": place,
                "token": {"id": token, "text": PIECES[token], "logprob": -0.1, "special": False},
                "generated_text": None, "details": None,
            }  # fmt: skip
            if piece.last and place == piece.sofar:
                event |= {"generated_text": script.text, "details": self.details(script)}
            events.append(b"data:" + encode(event) + b"\n\n")
        return b"".join(events)

    def details(self, script: Script) -> Json:
        reason = "length" if script.finish == "length" else "stop_sequence" if script.stopped_by else "eos_token"
        prompt = self.answer.ask.prompt_tokens
        return {"finish_reason": reason, "generated_tokens": script.tokens, "seed": None, "input_length": prompt}

    def whole(self) -> Json:
        script = self.answer.scripts[0]
        return {"generated_text": script.text, "details": self.details(script)}


def error(refused: Refused) -> Json:
    """The body of an error."""
    return {"error": refused.message, "error_type": "validation" if refused.status == 422 else "request"}
