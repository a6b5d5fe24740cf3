"""The process behind `llamacpp.LlamaCpp`: a script on its own, so that it loads nothing but the engine.

    python llamacpp_server.py '{"model": "FILE.gguf", "draft": 4, ...}'

Prints the address once the server is ready, and ends when stdin does.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def serve(model: str, settings: dict[str, Any]) -> None:
    """Run the server until stdin ends; `settings` are the fields of `llamacpp.Settings`."""
    import xllamacpp as llama

    p = llama.CommonParams()
    p.model.path = model
    p.hostnames, p.port = ["127.0.0.1"], 0
    p.endpoint_metrics, p.ui = True, False
    p.verbosity = 3  # the level at which each step is logged
    p.n_ctx, p.n_parallel, p.n_gpu_layers = 4096 * settings["parallel"], settings["parallel"], 0
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = settings["threads"]
    kinds = llama.common_speculative_type
    if settings["draft"]:
        p.speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
        p.speculative.draft.mparams.path = model
        p.speculative.draft.n_max = settings["draft"]
        p.speculative.synth_rates = settings["acceptance"]
    elif settings["ngram"]:
        p.speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE]
        p.speculative.ngram_simple.size_n = 3
        p.speculative.ngram_simple.size_m = settings["ngram"]
    server = llama.Server(p)
    print(server.listening_address, flush=True)
    sys.stdin.buffer.read()


if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    serve(options.pop("model"), options)
