"""The report in Chromium, as a reader sees it. SPECSONAR_SCREENSHOTS names a directory that keeps the pictures."""

import os
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("altair")
sync_api = pytest.importorskip("playwright.sync_api")

from specsonar import sweep  # noqa: E402 - after what may be missing
from specsonar.compare import compare  # noqa: E402
from specsonar.fingerprint import Alternative, Finding  # noqa: E402
from specsonar.fit import fingerprint  # noqa: E402
from specsonar.importers import look  # noqa: E402
from specsonar.render import html  # noqa: E402

pytestmark = pytest.mark.browser

RECORDING = Path(__file__).parents[1] / "golden" / "recordings" / "llama-bin.f32.k4.t2.jsonl.zst"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'><svg onload=hacked=1>"
CONTRAST = """() => {
  const seen = (c) => { const v = c.match(/[\\d.]+/g).map(Number); return v.length < 4 || v[3] > 0 ? v : null; };
  const linear = (v) => v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4;
  const light = (c) => linear(c[0]) * 0.2126 + linear(c[1]) * 0.7152 + linear(c[2]) * 0.0722;
  const behind = (e) => seen(getComputedStyle(e).backgroundColor) || behind(e.parentElement);
  const low = [];
  for (const e of document.querySelectorAll(
      'h1, h2, h3, p, dt, dd, span, th, td, figcaption, summary, button, svg text')) {
    if (!e.textContent.trim() || !e.getClientRects().length) continue;
    const style = getComputedStyle(e), svg = e.closest('svg');
    const ink = seen(svg ? style.fill : style.color), paper = behind(svg ? svg.parentElement : e);
    const [a, b] = [light(ink), light(paper)].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) low.push([e.textContent.trim().slice(0, 30), ink, paper]);
  }
  return low;
}"""
"""Texts whose contrast is below 4.5 (WCAG 2.2, 1.4.3)."""


@pytest.fixture(scope="module")
def browser():
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert found, "these tests need Chromium"
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def real():
    return fingerprint(look(str(RECORDING)))


@pytest.fixture(scope="module")
def opened(browser, tmp_path_factory):
    """Open a page of HTML; every request but that for the file is refused and noted."""
    folder = tmp_path_factory.mktemp("pages")
    contexts = []

    def open_page(text, name, **options):
        path = folder / f"{name}.html"
        path.write_text(text, encoding="utf-8")
        context = browser.new_context(viewport={"width": 1200, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.noted, page.asked = [], []
        page.on("console", lambda message: page.noted.append(message.text))
        page.on("pageerror", lambda error: page.noted.append(str(error)))

        def answer(route):
            if route.request.url == path.as_uri():
                route.continue_()
            else:
                page.asked.append(route.request.url)
                route.abort()

        page.route("**/*", answer)
        began = time.perf_counter()
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-drawn=yes]")
        print(f"{name}: drawn after {time.perf_counter() - began:.2f} s, {len(text) / 1e6:.2f} MB")
        return page

    yield open_page
    for context in contexts:
        context.close()


def keep(page, name):
    """A screenshot, where somebody wants to see it."""
    if folder := os.environ.get("SPECSONAR_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


@pytest.fixture(scope="module")
def report(opened, real):
    return opened(html.render(real), "report")


def test_it_draws_every_figure_without_a_word_or_a_request(report):
    keep(report, "report")
    assert report.noted == [] and report.asked == []
    assert report.locator("figure .chart svg").count() == report.locator("figure").count() == 6
    assert report.locator("figure .chart svg circle, figure .chart svg .mark-symbol path").count() > 100


def test_the_policy_forbids_the_network_and_eval(report):
    for code in ("fetch('https://example.org/')", "import('https://example.org/a.js')"):
        assert report.evaluate(f"{code}.then(() => 'went', () => 'refused')") == "refused"
    image = """new Promise((done) => {
        const image = new Image();
        image.onerror = () => done('refused');
        image.onload = () => done('went');
        image.src = 'https://example.org/a.png';
    })"""
    assert report.evaluate(image) == "refused"
    report.evaluate("""() => {
        const script = document.createElement('script');
        script.textContent = 'window.ran = 1';
        document.body.append(script);
    }""")
    assert report.evaluate("window.ran") is None
    assert report.asked == []
    report.noted.clear()  # what the policy says about these attempts


def test_names_and_landmarks_for_screen_readers(report):
    tree = report.locator("body").aria_snapshot()
    for line in (
        "- banner:",
        "- main:",
        '- heading "Arrivals" [level=3]',
        '- figure "Tokens in a step"',
        '- button "Dark"',
    ):
        assert line in tree, line
    assert report.locator("main figure [role=graphics-document][aria-label]").count() == 6
    unnamed = "all => all.filter(e => !(e.textContent.trim() || e.getAttribute('aria-label'))).length"
    assert report.locator("button, a, summary, [tabindex='0']").evaluate_all(unnamed) == 0
    assert report.locator("h1").count() == 1


def test_the_keyboard_reaches_the_switch_first_and_it_switches(opened, real):
    page = opened(html.render(real), "keyboard")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "look"
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("Enter")
    assert page.locator("#look").get_attribute("aria-pressed") == "true"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Earlier"


def test_the_raster_moves_with_buttons_and_pointer(opened, real):
    page = opened(html.render(real), "zoom")
    view = page.get_by_role("status")
    start = view.inner_text()
    low, high = (int(x.replace(",", "")) for x in re.findall(r"[\d,]+", start))
    assert low == 0 and high == round(real.arrivals[0].steps_ms[30])
    page.get_by_role("button", name="Later").press("Enter")
    sync_api.expect(view).to_have_text(f"{high / 2:,.0f} to {1.5 * high:,.0f} ms")
    page.get_by_role("button", name="All").click()
    sync_api.expect(view).to_have_text(f"0 to {real.arrivals[0].t_ms[-1]:,.0f} ms")
    page.get_by_role("button", name="Start").click()
    sync_api.expect(view).to_have_text(start)
    page.get_by_role("button", name="Zoom in").click()
    sync_api.expect(view).to_have_text(f"{high / 4:,.0f} to {high * 3 / 4:,.0f} ms")
    page.get_by_role("button", name="Start").click()
    sync_api.expect(view).to_have_text(start)
    box = page.locator("figure.wide svg").bounding_box()
    page.mouse.move(box["x"] + 600, box["y"] + 90)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 90, steps=4)
    page.mouse.up()
    sync_api.expect(view).not_to_have_text(start)
    assert not view.inner_text().startswith("0 ")
    page.keyboard.down("Shift")
    dragged = view.inner_text()
    page.mouse.wheel(0, -300)
    sync_api.expect(view).not_to_have_text(dragged)
    assert page.noted == []


def test_a_mark_tells_its_numbers(opened, real):
    page = opened(html.render(real), "hover")
    page.locator("figure[aria-labelledby$=burst-sizes] svg .mark-rect path").last.hover()
    page.wait_for_selector("#vg-tooltip-element.visible")
    assert "tokens" in page.locator("#vg-tooltip-element").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_looks_are_legible_and_follow_the_system(opened, real, scheme):
    page = opened(html.render(real), scheme, color_scheme=scheme)
    keep(page, f"report-{scheme}")
    assert page.evaluate("document.documentElement.dataset.look") == scheme
    assert page.evaluate(CONTRAST) == []
    page.locator("#look").click()
    assert page.evaluate("document.documentElement.dataset.look") != scheme
    assert page.evaluate(CONTRAST) == []


def test_it_prints_in_ink_on_paper(opened, real):
    page = opened(html.render(real), "print", color_scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("#look").is_visible()
    assert page.locator("figure svg").first.is_visible()
    keep(page, "report-print")
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_a_small_screen_has_no_sideways_scroll(opened, real):
    page = opened(html.render(real), "small")
    page.set_viewport_size({"width": 375, "height": 800})
    page.reload()
    page.wait_for_selector("html[data-drawn=yes]")
    keep(page, "report-small")
    assert page.evaluate("document.documentElement.scrollWidth") <= 375


def test_hostile_strings_stay_text(opened, real):
    odd = replace(
        real, sentence=HOSTILE, conditions={"model": HOSTILE}, server_report={HOSTILE: HOSTILE},
        findings=(Finding("S001", "warning", HOSTILE, HOSTILE),),
        alternatives=(Alternative(HOSTILE, 1.0, 0.0, HOSTILE, HOSTILE),),
        provenance={"version": HOSTILE, "inputs": [{"name": HOSTILE, "sha256": HOSTILE}], "seed": 0},
    )  # fmt: skip
    page = opened(html.render(odd), "hostile")
    assert page.evaluate("window.hacked") is None
    assert page.locator("h1").inner_text() == HOSTILE
    assert page.locator("main img, main script, main svg[onload]").count() == 0
    assert page.noted == [] and page.asked == []


def test_a_comparison_is_drawn(opened, real):
    page = opened(html.comparison(compare(real, real)), "comparison")
    keep(page, "comparison")
    assert page.noted == [] and page.asked == []
    assert page.locator("figure .chart svg").count() == page.locator("figure").count() > 10


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_maps_of_a_sweep_are_drawn(opened, scheme):
    cells = sweep.parse(["sigma=0:0.3:0.1", "tokens=60:240:x2"], ["layer=independent"]).cells()
    found = sweep.run(cells=cells, methods=("baseline", "logisi"), reps=3)
    page = opened(html.sweep(found), f"sweep-{scheme}", color_scheme=scheme)
    keep(page, f"sweep-{scheme}")
    assert page.noted == [] and page.asked == []
    assert page.locator("figure .chart svg").count() == page.locator("figure").count() > 6
    first = page.locator("figure").first
    assert first.locator("svg .mark-rect path").count() == 12 and "100%" in first.locator("svg").inner_html()
    assert first.locator("svg .mark-line path").count() == 2
