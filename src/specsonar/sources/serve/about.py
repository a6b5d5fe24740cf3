"""Pages about the server: models, properties, health, counters, and what `specsonar` says about itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from .simulation import Simulation

Headers = Mapping[str, str]
Tell = Callable[[Simulation, Headers], Any]
"""Makes the body of a page from the headers of a request: text, a value for JSON, or None where there is no page."""


def _models(simulation: Simulation, headers: Headers) -> Any:
    if "anthropic-version" in headers:
        return _anthropic_models(simulation, headers)
    model = {"id": simulation.options.model, "object": "model", "created": 0, "owned_by": "specsonar"}
    return {"object": "list", "data": [model]}


def _anthropic_models(simulation: Simulation, _headers: Headers) -> Any:
    name = simulation.options.model
    model = {"type": "model", "id": name, "display_name": name, "created_at": "2026-01-01T00:00:00Z"}
    return {"data": [model], "has_more": False, "first_id": name, "last_id": name}


def _ollama(simulation: Simulation) -> dict[str, Any]:
    name = f"{simulation.options.model}:latest"
    details = {"format": "gguf", "family": "simulated", "parameter_size": "0", "quantization_level": "F32"}
    return {
        "name": name, "model": name, "modified_at": "2026-01-01T00:00:00Z", "size": 0, "digest": "", "details": details,
    }  # fmt: skip


def _tags(simulation: Simulation, _headers: Headers) -> Any:
    return {"models": [_ollama(simulation)]}


def _show(simulation: Simulation, _headers: Headers) -> Any:
    return {**_ollama(simulation), "model_info": {}, "capabilities": ["completion"]}


def _ollama_version(_simulation: Simulation, _headers: Headers) -> Any:
    return {"version": "0.12.0"}


def _ollama_root(_simulation: Simulation, _headers: Headers) -> Any:
    return "Ollama is running"


def _info(simulation: Simulation, _headers: Headers) -> Any:
    return {"model_id": simulation.options.model, "version": "3.3.0", "max_concurrent_requests": 128,
            "max_input_tokens": 1 << 17, "max_total_tokens": 1 << 18, "router": "text-generation-router"}  # fmt: skip


def _props(simulation: Simulation, _headers: Headers) -> Any:
    return {
        "default_generation_settings": {"n_ctx": 1 << 18, "params": {"n_predict": -1, "temperature": 0.8}},
        "total_slots": 64, "model_path": simulation.options.model, "chat_template": "",
        "build_info": simulation.engine.fingerprint or "b0000-simulated",
    }  # fmt: skip


def _health(_simulation: Simulation, _headers: Headers) -> Any:
    return {"status": "ok"}


def _version(_simulation: Simulation, _headers: Headers) -> Any:
    return {"version": "0.32.0"}


def _metrics(simulation: Simulation, _headers: Headers) -> Any:
    """Prometheus text, with the names of the engines that have such counters."""
    families = ("vllm", "llamacpp") if not simulation.engine.metrics else (simulation.engine.metrics,)
    return "".join(_family(simulation, prefix) for prefix in families)


_NAMES: Final = {
    "vllm": {
        "prompt_tokens": "prompt_tokens_total", "tokens": "generation_tokens_total",
    },
    "llamacpp": {
        "prompt_tokens": "prompt_tokens_total", "tokens": "tokens_predicted_total", "steps": "n_decode_total",
    },
    "tgi": {"prompt_tokens": "request_input_length_sum", "tokens": "request_generated_tokens_sum"},
}  # fmt: skip
_DRAFTS: Final = {
    "drafts": "spec_decode_num_drafts_total",
    "drafted": "spec_decode_num_draft_tokens_total",
    "accepted": "spec_decode_num_accepted_tokens_total",
}


def _family(simulation: Simulation, prefix: str) -> str:
    ledger = simulation.ledger
    join = "_" if prefix == "tgi" else ":"
    labels = f'model_name="{simulation.options.model}"' if prefix == "vllm" else ""
    lines = []

    def put(name: str, value: float, kind: str, label: str = "") -> None:
        label = ",".join(filter(None, (labels, label)))
        if (head := f"# TYPE {prefix}{join}{name} {kind}") not in lines:
            lines.append(head)
        lines.append(f"{prefix}{join}{name}{'{' + label + '}' if label else ''} {value}")

    for key, name in _NAMES[prefix].items():
        put(name, ledger.totals[key], "counter")
    if prefix == "vllm":
        put("num_requests_running", ledger.running, "gauge")
    elif prefix == "llamacpp":
        put("tokens_predicted_seconds_total", ledger.totals["milliseconds"] / 1e3, "counter")
        put("requests_processing", ledger.running, "gauge")
    else:
        put("request_count", ledger.requests, "counter")
    if simulation.options.report != "none" and simulation.service.burst > 1 and prefix != "tgi":
        for key, name in _DRAFTS.items():
            put(name, ledger.totals[key], "counter")
        for position in range(simulation.service.burst - 1):
            value = ledger.by_position[position]
            put("spec_decode_num_accepted_tokens_per_pos_total", value, "counter", f'position="{position}"')
    return "\n".join(lines) + "\n"


def _timing(simulation: Simulation, _headers: Headers) -> Any:
    return simulation.ledger.timing()._asdict()


def _truth(simulation: Simulation, _headers: Headers) -> Any:
    return {"streams": simulation.ledger.truth()} if simulation.options.expose_truth else None


PAGES: Final[dict[str, tuple[tuple[str, Tell], ...]]] = {
    "models": (("/v1/models", _models),),
    "anthropic models": (("/v1/models", _anthropic_models),),
    "ollama": (
        ("/api/tags", _tags),
        ("/api/show", _show),
        ("/api/version", _ollama_version),
        ("/", _ollama_root),
    ),
    "info": (("/info", _info),),
    "props": (("/props", _props),),
    "health": (("/health", _health),),
    "version": (("/version", _version),),
    "metrics": (("/metrics", _metrics),),
}
"""Pages by the names in `engines.Engine.routes`."""

POSTED: Final = ("/api/show",)
"""Pages that are asked for with a body."""

OWN: Final[tuple[tuple[str, Tell], ...]] = (("/specsonar/timing", _timing), ("/specsonar/truth", _truth))
"""Pages that no engine has."""
