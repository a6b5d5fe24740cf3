"""Renderers, against a Fingerprint built by hand."""

import json
import re
from dataclasses import replace

import pytest
from rich.text import Text

from specsonar.fingerprint import Estimate, Finding
from specsonar.pictures import Histogram
from specsonar.render import json as render_json
from specsonar.render import markdown, notebook, terminal
from specsonar.render.bars import Bar, draw, gap_bars, size_bars
from specsonar.render.rows import clean, decimals, rows

SENTENCE = "Speculative decoding is on: up to 4 tokens a step, 2.95 on average."
ESCAPE = "\x1b"


def estimate(value, low, high):
    return Estimate(value, low, high, 0.95, "profile likelihood")


def test_the_sentence_leads(sample):
    assert terminal.render(sample).startswith(SENTENCE)


def test_it_fits_80_columns_and_holds_no_escape_sequence(sample):
    text = terminal.render(sample)
    assert max(map(len, text.splitlines())) <= 80
    assert ESCAPE not in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_order_is_sentence_numbers_histograms_rivals_findings_provenance(sample):
    text = terminal.render(sample)
    landmarks = "acceptance length", "steps by tokens", "gaps in ms", "explanations", "I002", "layer: in-order"
    places = [text.index(mark) for mark in (SENTENCE, *landmarks)]
    assert places == sorted(places)


def test_value_interval_and_method_stand_in_one_line(sample):
    line = next(line for line in terminal.render(sample, width=100).splitlines() if line.startswith("acceptance rate"))
    assert re.split(r"  +", line) == ["acceptance rate", "0.80", "0.77 to 0.83", "profile likelihood"]


def test_methods_are_told_on_request_and_not_in_the_table_of_a_narrow_terminal(sample):
    assert "profile likelihood" not in terminal.render(sample)
    text = terminal.render(sample, methods=True)
    assert re.search(r"(?m)^profile likelihood: .*acceptance rate", text)
    assert max(map(len, text.splitlines())) <= 80


def test_a_server_is_quoted_in_words_without_what_it_left_out(sample):
    said = {"source": "x", "steps": None, "acceptance_length": 3.971590909090909, "by_position": [0.70175, 0.5]}
    text = terminal.render(replace(sample, server_report=said))
    assert "server says   source x, acceptance length 3.972, by position 0.7017 0.5\n" in text
    assert "None" not in text


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1", "no-such-encoding"])
def test_streams_without_block_characters_get_ascii_bars(sample, encoding):
    text = terminal.render(replace(sample, sentence="M ≥ 4, 2 µs, 你好"), encoding=encoding)
    text.encode("ascii" if encoding == "no-such-encoding" else encoding)
    assert "####" in text
    assert "█" not in text
    assert "M >= 4" in text


def test_colour_changes_nothing_but_the_escape_sequences(sample):
    coloured = terminal.render(sample, colour=True)
    assert ESCAPE in coloured
    bare_lines = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", coloured).splitlines()]
    assert bare_lines == terminal.render(sample).splitlines()


def test_a_narrow_terminal_still_shows_every_value(sample):
    text = terminal.render(sample, width=50)
    assert "0.77 to 0.83" in text
    assert "profile likelihood" not in text


def test_missing_estimates_are_a_dash_not_a_zero(bare):
    text = terminal.render(bare)
    assert re.search(r"^step time +-$", text, re.MULTILINE)
    assert "about 600" in text
    assert "draft length" not in text


def test_one_sided_interval_says_or_more(sample):
    row = next(r for r in rows(replace(sample, max_burst=estimate(6.0, 4.0, None))) if r.quantity == "max burst M")
    assert row.interval == "4 or more"


def test_an_interval_without_width_is_not_shown_as_certainty(sample):
    flat = replace(sample, acceptance_length=estimate(300.0, 300.0, 300.0))
    intervals = {r.quantity: r.interval for r in rows(flat)}
    assert intervals["acceptance length"] == "-"
    assert intervals["max burst M"] == "4"


def test_draft_length_is_given_under_both_conventions(sample):
    row = next(r for r in rows(sample) if r.quantity == "draft length k")
    assert row.value == "3 or 4"
    assert row.interval == "3 with a bonus token, 4 without"


def test_long_drafts_are_cut_in_the_table_and_say_so(sample):
    many = tuple(estimate(0.9, 0.8, 0.95) for _ in range(63))
    labels = [r.quantity for r in rows(replace(sample, acceptance_by_position=many))]
    assert "  at position 12" in labels
    assert "  at 13 to 63" in labels


def test_server_report_and_chunk_facts_are_rows(sample):
    shown = rows(replace(sample, server_report={"accepted": 12}, chunk_tokens=4, flush_ms=16.5, flush_bytes=512))
    assert {"server: accepted", "chunk size", "flush interval", "flush size"} <= {r.quantity for r in shown}


@pytest.mark.parametrize(
    ("value", "low", "high", "places"),
    [(0.8, 0.77, 0.83, 2), (0.8, 0.795, 0.806, 3), (20.0, 19.9, 20.1, 2), (147.6, 140, 155, 0),
     (2.84, 2.68, 3.02, 2), (20, 20, 20, 2), (0.0, 0.0, 0.0, 2), (4.0, 3.0, None, 1)],
)  # fmt: skip
def test_decimals_follow_the_width_of_the_interval(value, low, high, places):
    assert decimals(estimate(value, low, high)) == places


HOSTILE = "a\x1b]0;pwned\x07\u202eb\nc<script>|`*_[x](y)"


def test_control_characters_of_a_file_never_reach_the_terminal(sample):
    hostile = replace(sample, findings=(Finding("I004", "warning", HOSTILE, HOSTILE),), count_source=HOSTILE)
    for text in (terminal.render(hostile), markdown.render(hostile), notebook.render(hostile)):
        assert not set(text) & {"\x1b", "\x07", "\u202e"}


def test_clean_keeps_ordinary_text():
    assert clean("Größe 你好 ≥ 4") == "Größe 你好 ≥ 4"


def test_markup_in_data_is_not_interpreted(sample):
    odd = replace(sample, count_source="[bold red]x[/] :smile:")
    assert "[bold red]x[/] :smile:" in terminal.render(odd, width=200)


def test_json_is_the_contract_and_round_trips(sample):
    text = render_json.render(sample)
    assert text.endswith("}\n")
    plain = json.loads(text)
    assert plain == json.loads(json.dumps(sample.to_dict()))
    assert plain["draft_length"] == {"with_bonus": 3, "without_bonus": 4, "convention": "unknown"}
    assert list(plain)[:3] == ["schema", "verdict", "sentence"]


def test_json_never_holds_nan_or_infinity(sample):
    odd = replace(
        sample,
        acceptance_rate=estimate(float("nan"), float("-inf"), float("inf")),
        gaps=Histogram((0.0, float("inf")), (float("nan"),)),
    )

    def refuse(constant):
        raise AssertionError(constant)

    plain = json.loads(render_json.render(odd), parse_constant=refuse)
    assert plain["acceptance_rate"]["value"] is None
    assert plain["gaps"]["counts"] == [None]
    assert "nan" not in terminal.render(odd)


def test_json_takes_numpy_scalars_and_file_names_that_are_no_utf8():
    np = pytest.importorskip("numpy")
    text = render_json.dumps({"n": np.int64(3), "x": np.float64(0.5), "name": "a\udcff", "v": np.arange(2)})
    assert json.loads(text) == {"n": 3, "x": 0.5, "name": "a?", "v": [0, 1]}


def test_json_refuses_what_it_does_not_know():
    with pytest.raises(TypeError, match="no place in JSON"):
        render_json.dumps({"x": object()})


def test_markdown_is_a_table_whose_cells_cannot_break_it(sample):
    text = markdown.render(replace(sample, findings=(Finding("I004", "warning", "a|b <i>", ""),)))
    assert text.startswith(f"**{SENTENCE}**\n")
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in table} == {5}
    assert r"a\|b \<i\>" in text


def test_notebook_html_is_escaped_and_fetches_nothing(sample):
    html = replace(sample, findings=(Finding("I004", "warning", "<script>alert(1)</script>", ""),))._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert not re.search(r"(src|href)=|https?:|url\(", html)
    assert html.count("<table>") == html.count("</table>")
    assert len(html) < 20_000


def test_bars_are_trimmed_to_what_was_seen_or_expected():
    bars = size_bars(Histogram((0, 1, 2, 3, 4, 5), (0, 3, 0, 2, 0), (0, 2.6, 0.9, 1.5, 0.1)))
    assert [bar.label for bar in bars] == ["1", "2", "3"]


def test_many_bins_are_joined_and_nothing_is_lost():
    histogram = Histogram(tuple(range(1, 66)), tuple(range(1, 65)), tuple(range(1, 65)))
    bars = size_bars(histogram)
    assert len(bars) <= 16
    assert sum(bar.observed for bar in bars) == sum(range(1, 65))
    assert bars[0].label == "1-4"
    assert bars[-1].label == "61-64"


def test_gap_labels_have_no_exponent():
    labels = [bar.label for bar in gap_bars(Histogram((0.0, 0.00005, 0.05, 12.589, 1258.9), (1, 1, 1, 1)))]
    assert labels == ["0 - 0.00005", "0.00005 - 0.05", "0.05 - 12.6", "12.6 - 1259"]


def test_edges_that_hardly_differ_get_the_digits_that_tell_them_apart():
    labels = [bar.label for bar in gap_bars(Histogram((19.999, 20.0, 20.002), (1, 1)))]
    assert labels == ["19.999 - 20", "20 - 20.002"]
    labels = [bar.label for bar in gap_bars(Histogram((0.0, 49.58, 49.62, 49.66, 49.7), (1, 1, 1, 1)))]
    assert labels == ["0 - 49.58", "49.58 - 49.62", "49.62 - 49.66", "49.66 - 49.7"]
    assert [bar.label for bar in gap_bars(Histogram((20.0, float("inf")), (1,)))] == ["20 - inf"]


def test_an_empty_histogram_draws_nothing(sample):
    text = terminal.render(replace(sample, gaps=Histogram((1.0, 2.0), (0.0,)), burst_sizes=None))
    assert "gaps in ms" not in text


def test_a_single_observation_is_visible_beside_a_million():
    assert draw(Bar("1", 1, None), 1e6, 40, unicode=True).strip()
    assert draw(Bar("1", 1, None), 1e6, 40, unicode=False).strip() == "#"


@pytest.mark.parametrize("unicode", [True, False])
def test_bars_have_the_width_that_was_asked_for(unicode):
    for seen in (0, 0.2, 3, 9.99, 10):
        assert len(draw(Bar("", seen, 10 - seen), 10, 24, unicode)) == 24


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, "100%"), (0.99995, ">99.9%"), (0.5, "50.0%"), (0.0001, "<0.1%"), (0.0, "0%")]
)
def test_weights_never_claim_more_certainty_than_there_is(value, text):
    assert terminal.weight(value) == text


def test_paint_takes_any_renderable():
    assert terminal.paint(Text("plain"), width=20) == "plain\n"
