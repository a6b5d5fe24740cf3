"""Official clients, unchanged, talk to the simulated service through the proxy; what they got is in the trace."""

import json

import anthropic
import httpx2
import ollama
import openai
import pytest
from websockets.sync.client import connect

from specsonar.sources.keeper import Keeper
from specsonar.sources.proxy.proxy import Proxy
from specsonar.sources.serve import Server
from specsonar.sources.service import Service

KEY = "a-key-for-tests"
MODEL = "simulated"
TALK = [{"role": "user", "content": "hello"}]
TOKENS = 30


@pytest.fixture(scope="module")
def server():
    with Server(Service(step_ms=1.0, ttft_ms=1.0), api_key=KEY) as running:
        yield running


@pytest.fixture
def through(server):
    """Run a client against the proxy's address and return the streams that were recorded."""

    def call(client):
        with Keeper() as keeper:
            with Proxy(server.url, keeper) as proxy:
                client(proxy.url)
            assert keeper.findings == []
        return [one for one in keeper.trace().streams if len(one) > 1]

    return call


def openai_chat(url):
    with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
        assert [m.id for m in client.models.list()] == [MODEL]
        chunks = client.chat.completions.create(model=MODEL, messages=TALK, max_tokens=TOKENS, stream=True)
        assert sum(bool(c.choices and c.choices[0].delta.content) for c in chunks) == TOKENS


def openai_responses(url):
    with (
        openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client,
        client.responses.stream(model=MODEL, input="hello", max_output_tokens=TOKENS) as events,
    ):
        assert sum(event.type == "response.output_text.delta" for event in events) == TOKENS


def anthropic_messages(url):
    with (
        anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0) as client,
        client.messages.stream(model=MODEL, max_tokens=TOKENS, messages=TALK) as stream,
    ):
        assert len(list(stream.text_stream)) == TOKENS


def ollama_chat(url):
    client = ollama.Client(host=url, headers={"authorization": f"Bearer {KEY}"})
    lines = list(client.chat(MODEL, TALK, options={"num_predict": TOKENS}, stream=True))
    assert sum(bool(line.message.content) for line in lines) == TOKENS
    client._client.close()


def realtime(url):
    where = url.replace("http", "ws") + f"/v1/realtime?model={MODEL}"
    with connect(where, additional_headers={"authorization": f"Bearer {KEY}"}) as socket:
        assert json.loads(socket.recv())["type"] == "session.created"
        socket.send(json.dumps({"type": "response.create", "response": {"max_output_tokens": TOKENS}}))
        kinds = []
        while "response.done" not in kinds:
            kinds.append(json.loads(socket.recv())["type"])
    assert kinds.count("response.output_text.delta") == TOKENS


@pytest.mark.parametrize("client", [openai_chat, openai_responses, anthropic_messages, ollama_chat, realtime])
def test_client(through, client):
    (one,) = through(client)
    assert len(one) == TOKENS
    assert one.known_tokens in (None, TOKENS)
    assert "hello" not in str(one.meta) and KEY not in str(one.meta)


def test_errors_of_the_server_pass(through):
    def stranger(url):
        answer = httpx2.post(f"{url}/v1/chat/completions", json={}, headers={"authorization": "Bearer wrong"})
        assert answer.status_code == 401

    with pytest.raises(AssertionError, match="I007"):
        through(stranger)
