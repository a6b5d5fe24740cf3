"""For each dialect where it is asked, how a question is put, and which fields ask for token counts.

What answers look like is told in `wire.dialects`; here is only the request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked for, in no dialect. `temperature` and `seed` are None where the server decides.

    `name` is that of the prompt, see `workloads.named`; it is not sent.
    """

    prompt: str
    tokens: int
    model: str | None = None
    temperature: float | None = 0.0
    seed: int | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Route:
    """One dialect.

    Attributes
    ----------
    name : what `--dialect` calls it.
    path : where it is asked, below the server's root.
    body : the request body of a question, without the fields that ask for counts.
    asks : fields (dots lead into objects) that make a server tell counts or its speculation. None is necessary.
    last_resort : fields that make it tell counts at some cost (log-probabilities slow a server down).
    key : the customary environment variable of its key, and how it is sent: "bearer" or "x-api-key".
    headers : further request headers.
    """

    name: str
    path: str
    body: Callable[[Question], Body]
    asks: Mapping[str, Any] = field(default_factory=dict)
    last_resort: Mapping[str, Any] = field(default_factory=dict)
    key: tuple[str, str] = ("OPENAI_API_KEY", "bearer")
    headers: Mapping[str, str] = field(default_factory=dict)

    def request(self, question: Question, asks: Mapping[str, Any]) -> Body:
        """The whole request body, with the fields of `asks` set."""
        body = self.body(question)
        for path, value in asks.items():
            *parents, last = path.split(".")
            place = body
            for parent in parents:
                place = place.setdefault(parent, {})
            place[last] = value
        return body


def _said(**fields: Any) -> Body:
    return {name: value for name, value in fields.items() if value is not None}


def _messages(q: Question) -> list[Body]:
    return [{"role": "user", "content": q.prompt}]


def _chat(q: Question) -> Body:
    return _said(
        model=q.model, messages=_messages(q), max_tokens=q.tokens, temperature=q.temperature, seed=q.seed, stream=True
    )


def _completions(q: Question) -> Body:
    return _said(
        model=q.model, prompt=q.prompt, max_tokens=q.tokens, temperature=q.temperature, seed=q.seed, stream=True
    )


def _responses(q: Question) -> Body:
    return _said(model=q.model, input=q.prompt, max_output_tokens=q.tokens, temperature=q.temperature, stream=True)


def _anthropic(q: Question) -> Body:
    return _said(model=q.model, messages=_messages(q), max_tokens=q.tokens, temperature=q.temperature, stream=True)


def _ollama(q: Question, **asked: Any) -> Body:
    options = _said(num_predict=q.tokens, temperature=q.temperature, seed=q.seed)
    return _said(model=q.model, **asked, stream=True, options=options)


def _llamacpp(q: Question) -> Body:
    return _said(prompt=q.prompt, n_predict=q.tokens, temperature=q.temperature, seed=q.seed, stream=True)


def _tgi(q: Question) -> Body:
    # this server refuses a temperature of 0: greedy decoding is the absence of sampling
    greedy = q.temperature == 0
    sampling = _said(do_sample=False if greedy else None, temperature=None if greedy else q.temperature, seed=q.seed)
    return {"inputs": q.prompt, "parameters": {"max_new_tokens": q.tokens, **sampling}}


def _sglang(q: Question) -> Body:
    sampling = _said(max_new_tokens=q.tokens, temperature=q.temperature, sampling_seed=q.seed)
    return _said(model=q.model, text=q.prompt, sampling_params=sampling, stream=True)


_OPENAI_ASKS: Final = {
    "stream_options.include_usage": True,
    "stream_options.continuous_usage_stats": True,  # vLLM, SGLang, TensorRT-LLM
    "return_token_ids": True,  # vLLM
    "timings_per_token": True,  # llama.cpp
    "return_spec_tokens_details": True,  # SGLang
}

ROUTES: Final = {
    route.name: route
    for route in (
        Route("openai", "/v1/chat/completions", _chat, _OPENAI_ASKS, {"logprobs": True}),
        Route("completions", "/v1/completions", _completions, _OPENAI_ASKS, {"logprobs": 1}),
        Route("responses", "/v1/responses", _responses, {}, {"include": ["message.output_text.logprobs"]}),
        Route(
            "anthropic", "/v1/messages", _anthropic, key=("ANTHROPIC_API_KEY", "x-api-key"),
            headers={"anthropic-version": "2023-06-01"},
        ),
        Route("ollama", "/api/chat", lambda q: _ollama(q, messages=_messages(q)), {}, {"logprobs": True}),
        Route("ollama-generate", "/api/generate", lambda q: _ollama(q, prompt=q.prompt), {}, {"logprobs": True}),
        Route("llama.cpp", "/completion", _llamacpp, {"timings_per_token": True, "return_tokens": True}),
        Route("tgi", "/generate_stream", _tgi, key=("HF_TOKEN", "bearer")),
        Route("sglang", "/generate", _sglang),
    )
}  # fmt: skip
"""All dialects by name."""

HOSTED_ASKS: Final = ("stream_options.include_usage",)
"""What providers understand; they refuse a request with a field that they do not know."""

_ENDINGS: Final = (
    ("/chat/completions", "openai"), ("/completions", "completions"), ("/responses", "responses"),
    ("/messages", "anthropic"), ("/api/chat", "ollama"), ("/api/generate", "ollama-generate"),
    ("/completion", "llama.cpp"), ("/generate_stream", "tgi"), ("/generate", "sglang"),
)  # fmt: skip


def by_path(path: str) -> Route | None:
    """The dialect that the path of an URL names, or None.

    >>> by_path("/openai/deployments/mine/chat/completions").name
    'openai'
    """
    return next((ROUTES[name] for ending, name in _ENDINGS if path.endswith(ending)), None)
