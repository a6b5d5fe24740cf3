"""What `import specsonar` offers, and what it costs."""

import subprocess
import sys

import pytest

import specsonar


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_the_package_loads_nothing_heavy():
    heavy = "numpy", "scipy", "numba", "rich", "click", "msgspec"
    assert run(f"import sys, specsonar; print([m for m in {heavy!r} if m in sys.modules])") == "[]"


@pytest.mark.parametrize("name", specsonar.__all__)
def test_every_public_name_resolves(name):
    assert getattr(specsonar, name) is not None


def test_fingerprint_is_the_function_whichever_submodule_was_imported_first():
    code = "import specsonar.fingerprint, specsonar.trace, specsonar; print(callable(specsonar.fingerprint))"
    assert run(code) == "True"


def test_the_record_module_keeps_its_path():
    assert run("from specsonar.fingerprint import Estimate; print(Estimate.__module__)") == "specsonar.fingerprint"


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        specsonar.nonsense  # noqa: B018 - the access is the test


def test_dir_lists_the_public_names():
    assert set(dir(specsonar)) == set(specsonar.__all__)


def test_version_matches_the_distribution():
    from importlib.metadata import version

    assert specsonar.__version__ == version("specsonar")
