"""What an event holds goes with the engine's name: the first that is told wins, with both."""

from specsonar.wire.dialects.said import STEP, TOKEN, Facts


def test_a_later_engine_does_not_change_what_events_hold():
    facts = Facts(engine="llama.cpp", event_is=TOKEN).updated(Facts(engine="vLLM", event_is=STEP, total=7))
    assert (facts.engine, facts.event_is, facts.total) == ("llama.cpp", TOKEN, 7)


def test_a_more_exact_name_is_taken():
    facts = Facts(engine="vLLM", event_is=STEP).updated(Facts(engine="vLLM 0.32.0", event_is=STEP))
    assert facts.engine == "vLLM 0.32.0"
