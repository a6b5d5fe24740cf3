"""Dialects and models are found from the path of the URL and from what servers answer to a GET."""

import pytest

from specsonar.errors import ConnectionFailed, UsageError
from specsonar.sources.dialing.address import parse
from specsonar.sources.dialing.find import Peek, find

OPENAI = {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "vllm"}]}


def server(pages):
    """A Get over `pages` (path: JSON value, or status); `asked` collects the paths."""
    asked = []

    def get(url):
        path = "/" + url.split("/", 3)[3].partition("?")[0] if url.count("/") > 2 else "/"
        asked.append(path)
        page = pages.get(path, 404)
        return Peek(page) if isinstance(page, int) else Peek(200, page)

    get.asked = asked
    return get


@pytest.mark.parametrize(
    ("url", "pages", "route", "path"),
    [
        ("http://h", {"/v1/models": OPENAI}, "openai", "/v1/chat/completions"),
        ("http://h/v1", {"/v1/models": OPENAI}, "openai", "/v1/chat/completions"),
        ("http://h/api/v1", {"/api/v1/models": OPENAI}, "openai", "/api/v1/chat/completions"),
        ("http://h/gate", {"/gate/v1/models": OPENAI}, "openai", "/gate/v1/chat/completions"),
        ("http://h/gate", {"/gate/models": OPENAI}, "openai", "/gate/chat/completions"),
        ("http://h/v1/completions", {"/v1/models": OPENAI}, "completions", "/v1/completions"),
        ("http://h/v1/responses", {"/v1/models": OPENAI}, "responses", "/v1/responses"),
        ("http://h", {"/v1/models": {"data": [{"type": "model", "id": "m"}], "has_more": False}}, "anthropic",
         "/v1/messages"),
        ("http://h/v1/messages", {"/v1/models": {"data": [{"type": "model", "id": "m"}]}}, "anthropic", "/v1/messages"),
        ("http://h", {"/v1/models": {"object": "list", "data": [{"id": "m", "owned_by": "library"}]},
                      "/api/tags": {"models": [{"name": "m"}]}}, "ollama", "/api/chat"),
        ("http://h", {"/api/tags": {"models": [{"name": "m"}]}}, "ollama", "/api/chat"),
        ("http://h/api/generate", {"/api/tags": {"models": [{"name": "m"}]}}, "ollama-generate", "/api/generate"),
        ("http://h", {"/v1/models": {"object": "list", "data": [{"id": "m", "owned_by": "llamacpp"}]},
                      "/api/tags": {"models": [{"name": "m"}]}}, "openai", "/v1/chat/completions"),
    ],
)  # fmt: skip
def test_dialects_with_models(url, pages, route, path):
    target = find(parse(url), server(pages))
    assert (target.route.name, target.url, target.model) == (route, f"http://h{path}", "m")


@pytest.mark.parametrize(
    ("pages", "route", "path"),
    [
        ({"/props": {"default_generation_settings": {}}}, "llama.cpp", "/completion"),
        ({"/info": {"model_id": "m", "max_total_tokens": 9}}, "tgi", "/generate_stream"),
        ({"/get_model_info": {"model_path": "/m"}}, "sglang", "/generate"),
    ],
)
def test_native_dialects_need_no_model(pages, route, path):
    target = find(parse("http://h"), server(pages))
    assert (target.route.name, target.url, target.model) == (route, f"http://h{path}", None)


def test_a_native_route_is_asked_for_nothing_else():
    get = server({})
    assert find(parse("http://h/completion"), get).route.name == "llama.cpp"
    assert get.asked == []


def test_a_named_model_needs_no_list():
    get = server({"/v1/models": 500})
    target = find(parse("http://h/v1/chat/completions"), get, model="mine")
    assert (target.model, get.asked) == ("mine", [])


def test_a_forced_dialect():
    target = find(parse("http://h/odd"), server({}), dialect="openai", model="m")
    assert target.url == "http://h/odd/v1/chat/completions"
    target = find(parse("http://h/odd/generate"), server({}), dialect="tgi")
    assert (target.url, target.route.name) == ("http://h/odd/generate", "tgi")
    with pytest.raises(UsageError, match="no dialect"):
        find(parse("http://h"), server({}), dialect="klingon")


def test_the_query_goes_along():
    url = "https://h/openai/deployments/d/chat/completions?api-version=7"
    assert find(parse(url), server({}), model="m").url == url


def several(*names, owner="vllm"):
    return {"/v1/models": {"object": "list", "data": [{"id": n, "owned_by": owner} for n in names]}}


def test_several_models_take_the_first_that_writes_text_and_say_so():
    target = find(parse("http://h"), server(several("bge-embed", "a", "b")))
    assert target.model == "a"
    assert "2 models (a, b)" in target.note
    assert "--model" in target.note


def test_a_provider_with_several_models_wants_one_named():
    with pytest.raises(UsageError, match=r"3 models: a, b, c"):
        find(parse("https://api.openai.com/v1"), server(several("a", "b", "c")))


@pytest.mark.parametrize(
    "pages", [{"/v1/models": {"object": "list", "data": []}}, {"/v1/models": {"object": "list", "data": None}},
              {"/api/tags": {"models": []}}]
)  # fmt: skip
def test_a_server_without_models(pages):
    with pytest.raises(ConnectionFailed, match="lists no model"):
        find(parse("http://h"), server(pages))


def test_a_list_that_fails_is_told_and_can_be_gone_without():
    get = server({"/v1/models": 500})
    with pytest.raises(ConnectionFailed, match="/v1/models answers HTTP 500") as caught:
        find(parse("http://h"), get, model="m")
    assert "--dialect" in caught.value.hint
    assert find(parse("http://h"), get, model="m", dialect="openai").url == "http://h/v1/chat/completions"


def test_an_unknown_server_says_what_was_asked():
    with pytest.raises(ConnectionFailed, match="no API that is known") as caught:
        find(parse("http://h"), server({}))
    for path in ("/v1/models", "/api/tags", "/props", "/info", "/get_model_info"):
        assert path in caught.value.message
    assert "--dialect" in caught.value.hint


@pytest.mark.parametrize("status", [401, 403])
def test_a_locked_server(status):
    with pytest.raises(ConnectionFailed, match=f"wants a key.*{status}") as caught:
        find(parse("https://api.openai.com/v1"), server({"/v1/models": status}))
    assert "OPENAI_API_KEY" in caught.value.hint
    with pytest.raises(ConnectionFailed, match="wants a key"):
        find(parse("http://h/v1/chat/completions"), server({"/v1/models": status}))


@pytest.mark.parametrize(
    "value", [None, [], "x", {"data": "x"}, {"data": [1, None, "x"]}, {"data": [{"id": 7}, {"id": ""}, {"id": "a\nb"}]}]
)
def test_odd_lists_of_models_are_no_lists(value):
    with pytest.raises(ConnectionFailed):
        find(parse("http://h"), server({"/v1/models": value}))


def test_providers_are_asked_only_for_what_they_know():
    assert set(find(parse("https://api.openai.com/v1"), server({}), model="m", dialect="openai").asks) == {
        "stream_options.include_usage"
    }
    assert "return_token_ids" in find(parse("http://h"), server({}), model="m", dialect="openai").asks
