"""The repository polices itself: direction of imports, size of modules, codes of findings, what is shipped."""

import ast
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from specsonar.findings import CATALOGUE

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "specsonar"
MODULES = sorted(SOURCE.rglob("*.py"))
LONGEST = 400


def name_of(path):
    return str(path.relative_to(SOURCE))


@pytest.fixture(scope="module")
def tracked():
    """Every file of the repository that is text; without git every file that git would not ignore."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        paths = [ROOT / name.decode() for name in listed.stdout.split(b"\0") if name]
    else:
        kept = (".ci", "benchmarks", "docs", "examples", "src", "tests", "tools")
        paths = [p for p in ROOT.iterdir() if p.is_file()]
        paths += [p for folder in kept for p in (ROOT / folder).rglob("*") if "__pycache__" not in p.parts]
    found = {}
    for path in paths:
        if path.is_file() and b"\0" not in (data := path.read_bytes()):
            found[str(path.relative_to(ROOT))] = data.decode("utf-8", "replace")
    return found


def test_import_contracts():
    """The contracts stand in pyproject.toml under [tool.importlinter]."""
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 broken" in done.stdout


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_module_is_too_long(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_relative_imports_inside_the_package(path):
    """A module that names the package by its full name cannot be seen to climb the layers at a glance."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) and node.level == 0 else []
        assert not [name for name in names if name.split(".")[0] == "specsonar"]


def codes_used():
    """Codes that the source hands to `finding` as its first argument."""
    used = set()
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "finding":
                assert isinstance(node.args[0], ast.Constant), f"{path}:{node.lineno}: the code must be written out"
                used.add(node.args[0].value)
    return used


def test_every_code_is_explained():
    assert codes_used() <= set(CATALOGUE)


def test_every_explanation_is_used():
    assert set(CATALOGUE) <= codes_used()


@pytest.mark.parametrize("code", sorted(CATALOGUE))
def test_explanations_are_complete(code):
    entry = CATALOGUE[code]
    assert re.fullmatch(r"[CIQSV]\d{3}", code)
    assert entry.severity in ("info", "warning")
    assert not entry.title.endswith(".")
    for text in (entry.what, entry.why, entry.do):
        assert text.endswith(".")


def test_no_registry_and_no_machine_path(tracked):
    """Nothing depends on one machine, and pip finds its index by itself. (Split here, so as not to find itself.)"""
    hosts = ["py" + "pi.org", "python" + "hosted.org", "registry.n" + "pmjs", "index" + "-url"]
    folders = ["/wo" + "rk/", "/ro" + "ot/", "/t" + "mp/"]
    bad = re.compile("|".join([*map(re.escape, hosts), *(rf"(?<![\w.]){re.escape(f)}" for f in folders)]))
    hits = [(name, match.group()) for name, text in tracked.items() for match in bad.finditer(text)]
    assert hits == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, as it is built from this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_the_wheel_holds_the_package_its_types_and_its_license_only(wheel):
    names = wheel.namelist()
    assert "specsonar/py.typed" in names
    info = [n for n in names if n.split("/")[0].endswith(".dist-info")]
    assert any(n.endswith("licenses/LICENSE") for n in info)
    code = {f"specsonar/{name_of(path)}".replace("\\", "/") for path in MODULES}
    data = {f"specsonar/render/assets/page.{kind}" for kind in ("html", "css", "js")}
    assert set(names) - set(info) == code | data | {"specsonar/py.typed"}


def test_the_wheel_has_the_command(wheel):
    (name,) = (n for n in wheel.namelist() if n.endswith("entry_points.txt"))
    assert "specsonar = specsonar.cli:main" in wheel.read(name).decode()
