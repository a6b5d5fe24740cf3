"""The page, the figures and the notebook, as far as they can be judged without a browser."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

from specsonar.compare import compare
from specsonar.errors import InputError
from specsonar.fingerprint import Alternative, Finding
from specsonar.render import charts, html, images, maps, pairs
from specsonar.sweep import Measured, Row, Sweep, Truth, article, parse, run
from specsonar.sweep.score import score

LARGEST = 1_500_000
HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>\u202e{{ 7 * 7 }}"


class Outline(HTMLParser):
    """Headings, ids and the elements that could fetch something."""

    def __init__(self, text):
        super().__init__()
        self.levels, self.ids, self.fetching, self.labels = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        known = dict(attrs)
        if re.fullmatch("h[1-6]", tag):
            self.levels.append(int(tag[1]))
        if "id" in known:
            self.ids.append(known["id"])
        if "aria-labelledby" in known:
            self.labels.append(known["aria-labelledby"])
        if {"src", "srcset", "action"} & set(known) or tag in ("link", "img", "iframe", "object", "embed", "base"):
            self.fetching.append((tag, known))
        if tag == "a" and not known["href"].startswith("#"):
            self.fetching.append((tag, known))


@pytest.fixture(scope="module")
def sweep():
    truth = Truth("speculative", 4.0, 0.8, 2.95, 20.0)
    clean = score("likelihood", truth, [answer(4.0, 0.8, 20.0, (40.0, 30.0, 25.0, 105.0))] * 2)
    rough = score("baseline", truth, [answer(8.0, 0.76, 15.0, (42.0, 26.0, 26.0, 29.0, 16.0, 9.0, 5.0, 5.0))] * 2)
    rows = [
        Row(replace(cell, label=f"{j} ms"), truth, (41.0, 33.0, 26.0, 104.0), {"baseline": b, "likelihood": clean})
        for j, b, cell in ((0, clean, article()[0]), (6, rough, article()[6]))
    ]
    return Sweep("figure1", 2, 0, ("baseline", "likelihood"), ("jitter", "k"), tuple(rows))


def answer(burst, alpha, step, sizes):
    return Measured("speculative", burst, alpha, 2.9, step, {"alpha": (0.7, 0.9)}, sizes, seconds=0.1)


def grid_of(vary, **options):
    return run(cells=parse(vary, ["layer=independent"]).cells(), methods=["baseline", "logisi"], reps=2, **options)


@pytest.fixture(scope="module")
def sigma_and_tokens():
    return grid_of(["sigma=0:0.2:0.1", "tokens=50:200:x2"])


@pytest.fixture
def pair(sample):
    return compare(
        sample, replace(sample, acceptance_length=replace(sample.acceptance_length, value=2.4, low=2.3, high=2.5))
    )


@pytest.fixture
def pages(sample, bare, pair, sweep):
    return {
        "fingerprint": html.render(sample), "bare": html.render(bare), "comparison": html.comparison(pair),
        "sweep": html.sweep(sweep),
    }  # fmt: skip


def test_a_page_stands_alone_and_is_small_enough(pages):
    for name, page in pages.items():
        outline = Outline(page)
        assert outline.fetching == [], name
        assert len(page.encode()) < LARGEST, name
        assert "default-src 'none'" in page and "unsafe-eval" not in page.split("</head>")[0]
        assert outline.levels[0] == 1 and outline.levels.count(1) == 1
        assert all(b <= a + 1 for a, b in zip(outline.levels, outline.levels[1:], strict=False)), outline.levels
        assert len(set(outline.ids)) == len(outline.ids) and set(outline.labels) <= set(outline.ids)


def test_the_largest_sample_of_arrivals_fits_twice(sample):
    """Both sides of a comparison, eight streams each, every token an event of its own."""
    times = tuple(round(12.3456 * i, 3) for i in range(150))
    arrivals = (replace(sample.arrivals[0], t_ms=times, places=(1,) * 150, steps_ms=times[1:]),) * 8
    full = replace(sample, arrivals=arrivals)
    assert len(html.comparison(compare(full, full)).encode()) < LARGEST


def test_the_sentence_leads_and_the_order_is_that_of_the_issue(pages, sample):
    page = pages["fingerprint"].split("<main")[1].split("<script")[0]
    marks = (
        sample.sentence, "Arrivals", "Tokens in a step", "Gaps between events", "Arrivals folded",
        "Acceptance by draft", "Likelihood over M", "Explanations", "9.9 nats behind", "I002", "Provenance",
    )  # fmt: skip
    assert [page.index(m) for m in marks] == sorted(page.index(m) for m in marks)


def test_every_figure_has_a_table_with_all_its_rows(sample, pages):
    drawn = charts.figures(sample, charts.Palette())
    assert [f.name for f in drawn] == ["arrivals", "burst-sizes", "gaps", "phases", "acceptance", "likelihood"]
    for figure in drawn:
        assert figure.caption.endswith(".") and figure.table.rows
        assert all(len(row) == len(figure.table.head) for row in figure.table.rows)
        assert f"{figure.title} as a table" in pages["fingerprint"]


def test_nothing_to_draw_is_a_page_all_the_same(pages):
    assert "<figure" not in pages["bare"]
    assert "Estimates" in pages["bare"]


def test_hostile_text_stays_text(sample, pair):
    odd = replace(
        sample, sentence=HOSTILE, conditions={"model": HOSTILE, HOSTILE: 1}, server_report={"source": HOSTILE},
        findings=(Finding("S001", "warning", HOSTILE, HOSTILE),), count_source=HOSTILE,
        alternatives=(Alternative(HOSTILE, 1.0, 0.0, HOSTILE, HOSTILE),),
        provenance={"version": HOSTILE, "inputs": [{"name": HOSTILE, "sha256": HOSTILE}], "seed": HOSTILE},
    )  # fmt: skip
    plain = html.render(sample)
    for page, calm in ((html.render(odd), plain), (html.comparison(replace(pair, base=odd, sentence=HOSTILE)), None)):
        assert page.count("<script") == (calm or plain).count("<script")
        assert Outline(page).fetching == []
        assert "\u202e" not in page.split("application/json")[0]
        assert "{{ 7 * 7 }}" in page


def test_charts_hold_data_and_no_address(sample, pages):
    specs = json.loads(re.search(r'id="charts">(.*?)</script>', pages["fingerprint"], re.S)[1])
    assert len(specs) == 6
    for spec in specs.values():
        assert '"url"' not in json.dumps(spec)
        assert spec["width"] == "container" and spec["description"]


def test_figures_become_files(sample, pair, sweep):
    palette = images.PALETTE
    drawn = [*charts.figures(sample, palette), *pairs.comparison_figures(pair, palette)]
    for figure in (drawn[1], drawn[-1], maps.sweep_figures(sweep, palette)[2]):
        (png_name, png), (svg_name, svg) = images.images([figure])
        assert (png_name, svg_name) == (f"{figure.name}.png", f"{figure.name}.svg")
        assert png.startswith(b"\x89PNG") and svg.startswith(b"<svg")
        assert figure.title.split("'")[0].encode() in svg and b"http" not in svg.replace(b"http://www.w3.org", b"")


def test_figure_1_shows_clean_beside_jitter_and_baseline_beside_ours_on_the_same_axes(sweep):
    drawn = maps.sweep_figures(sweep, charts.Palette())[:4]
    assert [f.name for f in drawn] == [f"figure1-{j}ms-{who}" for j in (0, 6) for who in ("article", "ours")]
    assert {len(f.table.rows) for f in drawn} == {8}
    assert drawn[2].table.rows[7] == ("8", "5.0", "0.0") and drawn[3].table.rows[7] == ("8", "0.0", "0.0")


def test_a_notebook_gets_a_frame_of_either_library(sample, pair, sweep, monkeypatch):
    pandas = pytest.importorskip("pandas")
    frame = sample.to_dataframe()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == ["quantity", "value", "low", "high", "level", "method"]
    assert frame.set_index("quantity").loc["acceptance_at_2", "value"] == 0.81
    assert set(pair.to_dataframe()["verdict"]) <= {"changed", "equivalent", "undetermined"}
    assert len(sweep.to_dataframe()) == 4 and "law" not in sweep.to_dataframe()
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(InputError, match="pandas or polars"):
        sample.to_dataframe()


def test_a_notebook_gets_plots(sample, pair, sweep):
    assert sample.plot("gaps").to_dict()["title"] == "Gaps between events"
    assert len(sample.plot().to_dict()["vconcat"]) == 6
    assert len(pair.plot().to_dict()["vconcat"]) == 3 and len(sweep.plot().to_dict()["vconcat"]) == 7
    with pytest.raises(KeyError, match="burst-sizes"):
        sample.plot("no such")


def test_a_notebook_shows_comparisons_and_sweeps_escaped(pair, sweep):
    text = replace(pair, sentence=HOSTILE)._repr_html_()
    assert "<script" not in text and "&lt;script&gt;" in text and text.count("<tr>") == 6
    assert "alpha_bias" in sweep._repr_html_()


def test_two_knobs_make_a_map_for_each_method_with_the_law_drawn_in(sigma_and_tokens):
    drawn = maps.sweep_figures(sigma_and_tokens, images.PALETTE)
    exact = [f for f in drawn if f.name.startswith("exact-")]
    assert [f.name for f in exact] == ["exact-baseline", "exact-logisi"]
    spec = exact[0].chart.to_dict()
    assert "N R^2" in exact[0].caption and '"line"' in json.dumps(spec)
    assert len(exact[0].table.rows) == 9 and exact[0].table.head == ("sigma", "tokens", "M right")
    assert not [f for f in drawn if f.name.startswith("false-alarm")]
    (_, png), (_, svg) = images.images(exact[:1])
    assert png.startswith(b"\x89PNG") and b"100%" in svg


def test_one_knob_makes_curves_and_words_make_points():
    curves = maps.sweep_figures(grid_of(["sigma=0:0.2:0.1"]), images.PALETTE)
    assert '"area"' in json.dumps(curves[0].chart.to_dict()) and len(curves[0].table.rows) == 6
    names = run(cells=parse(["law=gauss,uniform"], ["jitter=2"]).cells(), methods=["baseline"], reps=2)
    points = maps.sweep_figures(names, images.PALETTE)
    assert '"rule"' in json.dumps(points[0].chart.to_dict()) and points[0].wide


def test_further_knobs_get_panels():
    drawn = maps.sweep_figures(grid_of(["sigma=0,0.1", "alpha=0.5,0.8", "k=2,4"]), images.PALETTE)
    assert [f.title for f in drawn[:2]] == ["M right, baseline, k = 2", "M right, baseline, k = 4"]


def test_a_page_of_maps_stands_alone(sigma_and_tokens):
    text = html.sweep(sigma_and_tokens)
    assert "All services together" in text and text.count("<figure") > 4


@pytest.mark.parametrize("missing", ["altair", "vl_convert", "jinja2"])
def test_a_missing_extra_is_named_in_one_line(missing, sample, monkeypatch):
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr("specsonar.extras.find_spec", lambda name: None if name == missing else real(name))
    with pytest.raises(InputError, match="extra 'report'") as told:
        sample.plot()
    assert told.value.hint == "pip install 'specsonar[report]'"


def test_the_library_is_not_imported_before_it_is_needed():
    code = "import sys, specsonar.cli.app, specsonar.cli.analyze, specsonar.fingerprint, specsonar.render.notebook; "
    code += "print([m for m in ('altair', 'vl_convert', 'jinja2', 'pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
