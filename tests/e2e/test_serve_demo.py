"""The demonstration over real sockets: a hidden server in a process of its own, probed without the truth."""

from importlib import import_module

import httpx2
import pytest

from specsonar import Probe, demo
from specsonar.errors import InputError
from specsonar.sources import llamacpp
from specsonar.sources.simulate import simulate


@pytest.fixture
def asked(monkeypatch, sample):
    """What the probe is called with; nobody is asked."""
    seen = []

    def fake(url, **options):
        seen.append((url, options))
        httpx2.post(f"{url}/v1/completions", json={"model": "simulated", "prompt": "x", "max_tokens": 5})
        return Probe(simulate(tokens=10), sample)

    monkeypatch.setattr(import_module("specsonar.probe"), "probe", fake)  # the package's own name is the function
    return seen


def test_a_hidden_service_is_found_out_over_http():
    """Seed 3 hides M = 2 behind steps of 12.5 ms. Other seeds are for benchmarks/probe_serve.py --demo."""
    shares = []
    result = demo.served(3, tokens=640, progress=lambda share, _: shares.append(share))
    checks = {c.quantity: c for c in result.checks}
    assert result.tokens == 640
    assert checks["verdict"].answer == checks["verdict"].truth == "speculative"
    assert checks["max burst M"].answer == checks["max burst M"].truth == "2"
    assert "late by" in result.where
    assert shares and shares == sorted(shares) and 0 <= shares[0] <= shares[-1] <= 1


def test_the_probe_sees_the_address_and_no_key(asked):
    demo.served(5)
    ((url, options),) = asked
    assert url.startswith("http://127.0.0.1:")
    assert options["environment"] == {}


def test_an_engine_that_is_not_there_is_told_how_to_get(monkeypatch):
    monkeypatch.setattr(llamacpp.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError) as caught:
        demo.real(1)
    assert "pip install" in caught.value.hint


@pytest.mark.slow
def test_a_real_engine_answers_every_question():
    """Its server closes a connection after a streamed answer, though it has promised to keep it open."""
    try:
        llamacpp.LlamaCpp(llamacpp.Settings())
    except InputError as error:
        pytest.skip(error.message)
    result = demo.real(1, tokens=128)
    assert result.tokens == 128
    assert result.answer.streams == demo.STREAMS
