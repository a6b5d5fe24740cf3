"""Keys go to their provider and to this machine, and are shown nowhere."""

import traceback

import pytest

from specsonar.errors import UsageError
from specsonar.sources.dialing.address import parse
from specsonar.sources.dialing.keys import HIDDEN, HOSTS, Secrets, hosted, locked, pick

KEY = "sk-verysecret-123"
ALL = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "MINE", *HOSTS.values()), KEY)


@pytest.mark.parametrize(
    ("url", "variable"),
    [
        ("https://api.openai.com/v1", "OPENAI_API_KEY"),
        ("https://api.anthropic.com", "ANTHROPIC_API_KEY"),
        ("https://mine.openai.azure.com/openai", "AZURE_OPENAI_API_KEY"),
        ("http://localhost:8000", "OPENAI_API_KEY"),
    ],
)
def test_the_customary_key(url, variable):
    assert pick(parse(url), "OPENAI_API_KEY", ALL).variable == variable


@pytest.mark.parametrize(
    "url", ["https://example.com/v1", "https://api.openai.com.example.com", "https://notapi.openai.com"]
)
def test_no_other_host_gets_a_key_that_was_not_named_for_it(url):
    assert pick(parse(url), "OPENAI_API_KEY", ALL).value == ""
    assert pick(parse(url), "OPENAI_API_KEY", ALL, named="MINE").value == KEY


def test_a_host_that_the_base_url_names_gets_the_key():
    environment = ALL | {"OPENAI_BASE_URL": "https://gate.example.com/v1"}
    assert pick(parse("https://gate.example.com/v1"), "OPENAI_API_KEY", environment).value == KEY


def test_unencrypted_only_when_allowed():
    address = parse("http://10.0.0.7:8000")
    with pytest.raises(UsageError, match="unencrypted"):
        pick(address, "OPENAI_API_KEY", ALL, named="MINE")
    assert pick(address, "OPENAI_API_KEY", ALL, named="MINE", over_http=True).value == KEY
    silent = pick(parse("http://api.openai.com"), "OPENAI_API_KEY", ALL)
    assert silent.value == ""
    assert "unencrypted" in silent.note


def test_a_named_variable_has_to_be_there():
    with pytest.raises(UsageError, match="MINE is not set"):
        pick(parse("http://localhost"), "OPENAI_API_KEY", {}, named="MINE")
    assert pick(parse("http://localhost"), "OPENAI_API_KEY", {}).value == ""


@pytest.mark.parametrize("broken", [f"{KEY}\nx", f"{KEY} x", f"{KEY}é"])
def test_what_cannot_be_a_key_is_not_shown(broken):
    with pytest.raises(UsageError) as caught:
        pick(parse("http://localhost"), "MINE", {"MINE": broken})
    assert KEY not in "".join(traceback.format_exception(caught.value))


def test_blanks_around_a_key_are_no_part_of_it():
    assert pick(parse("http://localhost"), "MINE", {"MINE": f" {KEY}\n"}).value == KEY


def test_a_key_has_no_text():
    key = pick(parse("http://localhost"), "MINE", ALL)
    assert KEY not in f"{key} {key!r}"


@pytest.mark.parametrize(
    ("url", "style", "header"),
    [("http://localhost", "bearer", "authorization"), ("http://localhost", "x-api-key", "x-api-key"),
     ("https://x.openai.azure.com", "bearer", "api-key")],
)  # fmt: skip
def test_the_header(url, style, header):
    address = parse(url)
    key = pick(address, "OPENAI_API_KEY", ALL)
    assert list(key.headers(style, address)) == [header]
    assert pick(address, "OPENAI_API_KEY", {}).headers(style, address) == {}


def test_hiding():
    awkward = 'sk/a"b\\c+d'
    secrets = Secrets([awkward, "x"])
    shown = secrets.hide(f'{awkward} sk%2Fa%22b%5Cc%2Bd x {{"k":"sk/a\\"b\\\\c+d"}}')
    assert shown == f'{HIDDEN} {HIDDEN} x {{"k":"{HIDDEN}"}}'
    assert secrets.hide_bytes(awkward.encode()) == HIDDEN.encode()


def test_what_to_do_about_a_locked_server():
    assert hosted(parse("https://api.openai.com")) == "OPENAI_API_KEY"
    assert "OPENAI_API_KEY" in locked(parse("https://api.openai.com"))
    assert "--key-env" in locked(parse("http://localhost"))
