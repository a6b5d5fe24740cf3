"""What is taken for an address, and what never is."""

import pytest

from specsonar.errors import UsageError
from specsonar.sources.dialing.address import parse
from specsonar.sources.listening import is_loopback


@pytest.mark.parametrize(
    ("text", "origin", "path"),
    [
        ("http://localhost:8000", "http://localhost:8000", ""),
        ("http://localhost:8000/", "http://localhost:8000", ""),
        ("localhost:8000/v1/", "http://localhost:8000", "/v1"),
        ("127.0.0.1:9", "http://127.0.0.1:9", ""),
        ("http://[::1]:8000/v1", "http://[::1]:8000", "/v1"),
        ("api.openai.com/v1", "https://api.openai.com", "/v1"),
        ("HTTPS://Api.Example.COM./x", "https://api.example.com", "/x"),
    ],
)
def test_addresses(text, origin, path):
    address = parse(text)
    assert (address.origin, address.path) == (origin, path)


def test_the_query_stays_with_every_path():
    assert parse("https://h/openai?api-version=1").at("/x") == "https://h/x?api-version=1"


@pytest.mark.parametrize(
    "text",
    ["", "http://", "http://host:port", "http://host:99999", "ws://host/x", "ftp://h", "http://a b", "http://h/\nx",
     "http://[::1", "file:///etc/passwd"],
)  # fmt: skip
def test_no_addresses(text):
    with pytest.raises(UsageError):
        parse(text)


@pytest.mark.parametrize(
    "text",
    ["https://me:secret9@host/v1", "https://secret9@host", "https://h/v1?key=secret9", "https://h?API_KEY=secret9"],
)
def test_a_key_in_the_address_is_refused_and_not_repeated(text):
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert "secret9" not in caught.value.message + caught.value.hint
    assert "environment" in caught.value.hint


@pytest.mark.parametrize(
    ("host", "here"),
    [("localhost", True), ("a.localhost", False), ("127.9.9.9", True), ("::1", True), ("10.0.0.1", False),
     ("localhost.example.com", False), ("127.0.0.1.example.com", False)],
)  # fmt: skip
def test_this_machine(host, here):
    assert is_loopback(host) is here
