"""`--format html` and `--figures`."""

import pytest

pytest.importorskip("altair")
pytest.importorskip("vl_convert")


def test_a_page_is_written(run, fake_fit, times, tmp_path):
    done = run("analyze", times, "--format", "html", "-o", tmp_path / "report.html")
    assert (done.exit_code, done.stdout) == (0, "")
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_stdout_takes_a_page_where_it_is_no_terminal(run, fake_fit, times):
    done = run("analyze", times, "--format", "html")
    assert done.exit_code == 0 and done.stdout.startswith("<!doctype html>") and done.stdout.endswith("</html>\n")


def test_a_terminal_is_not_filled_with_a_page(run, fake_fit, times, monkeypatch):
    monkeypatch.setattr("specsonar.cli.figures.is_terminal", lambda: True)
    done = run("analyze", times, "--format", "html")
    assert done.exit_code == 2 and "not for a terminal" in done.stderr


def test_figures_are_saved_beside_the_answer(run, fake_fit, times, tmp_path):
    done = run("analyze", times, "--figures", tmp_path / "a" / "b", "--json")
    assert done.exit_code == 0 and done.stdout.startswith("{")
    names = {path.name for path in (tmp_path / "a" / "b").iterdir()}
    assert names >= {"arrivals.png", "arrivals.svg", "burst-sizes.png"} and len(names) == 12


def test_a_folder_that_cannot_be_made_is_one_line(run, fake_fit, times, tmp_path):
    (tmp_path / "file").write_text("")
    done = run("analyze", times, "--figures", tmp_path / "file" / "b")
    assert done.exit_code == 3 and done.stderr.count("\n") == 2 and "cannot make" in done.stderr


def test_a_missing_extra_is_told_before_anything_is_read(run, times, monkeypatch):
    monkeypatch.setattr("specsonar.extras.find_spec", lambda name: None)
    for extra in (["--format", "html"], ["--figures", "x"]):
        done = run("analyze", "no-such-file", *extra)
        assert done.exit_code == 3 and "specsonar[report]" in done.stderr and "no-such-file" not in done.stderr
