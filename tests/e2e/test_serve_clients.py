"""Clients that people use, unchanged, talk to the simulated service: in events and in one piece, sync and async."""

import asyncio
import json

import anthropic
import ollama
import openai
import pytest
import websockets
from websockets.sync.client import connect

from specsonar.sources.serve import Server
from specsonar.sources.service import Service

FAST = Service(step_ms=1.0, ttft_ms=1.0)
TALK = [{"role": "user", "content": "hello"}]
THEIR_WARNING = pytest.mark.filterwarnings("ignore:connect.* must be used as a context manager:DeprecationWarning")
"""The openai client uses the websockets client in a way that newer versions of that frown upon."""

KEY = "a-key-for-tests"
MODEL = "simulated"


@pytest.fixture(scope="module")
def server():
    with Server(FAST, api_key=KEY) as running:
        yield running


@pytest.fixture
def open_ai(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0) as client:
        yield client


@pytest.fixture
def claude(server):
    with anthropic.Anthropic(base_url=server.url, api_key=KEY, max_retries=0) as client:
        yield client


@pytest.fixture
def llama(server):
    client = ollama.Client(host=server.url, headers={"authorization": f"Bearer {KEY}"})
    yield client
    client._client.close()


def test_openai_lists_the_model(open_ai):
    assert [m.id for m in open_ai.models.list()] == [MODEL]


def test_openai_chat(open_ai):
    whole = open_ai.chat.completions.create(model=MODEL, messages=TALK, max_tokens=12)
    assert whole.usage.completion_tokens == 12
    assert whole.choices[0].finish_reason == "length"
    chunks = list(
        open_ai.chat.completions.create(
            model=MODEL, messages=TALK, max_completion_tokens=12, stream=True, stream_options={"include_usage": True}
        )
    )
    assert sum(bool(c.choices and c.choices[0].delta.content) for c in chunks) == 12
    assert chunks[-1].usage.completion_tokens == 12


def test_openai_chat_logprobs_and_several_choices(open_ai):
    chunks = open_ai.chat.completions.create(model=MODEL, messages=TALK, max_tokens=9, n=3, logprobs=True, stream=True)
    seen = {0: 0, 1: 0, 2: 0}
    for chunk in chunks:
        for choice in chunk.choices:
            if choice.delta.content:
                seen[choice.index] += len(choice.logprobs.content)
    assert seen == {0: 9, 1: 9, 2: 9}


def test_openai_completions(open_ai):
    whole = open_ai.completions.create(model=MODEL, prompt="hello", max_tokens=7, logprobs=0)
    assert len(whole.choices[0].logprobs.tokens) == 7
    texts = [c.choices[0].text for c in open_ai.completions.create(
        model=MODEL, prompt="hello", max_tokens=7, stream=True)]  # fmt: skip
    assert sum(map(bool, texts)) == 7


def test_openai_responses(open_ai):
    whole = open_ai.responses.create(model=MODEL, input="hello", max_output_tokens=8)
    assert whole.status == "incomplete" and whole.usage.output_tokens == 8
    with open_ai.responses.stream(model=MODEL, input="hello", max_output_tokens=8) as stream:
        kinds = [event.type for event in stream]
    assert kinds.count("response.output_text.delta") == 8
    assert kinds[-1] == "response.incomplete"


@THEIR_WARNING
def test_openai_responses_over_a_websocket(open_ai):
    with open_ai.responses.connect() as connection:
        connection.response.create(model=MODEL, input="hello", max_output_tokens=8)
        kinds = []
        for event in connection:
            kinds.append(event.type)
            if event.type == "response.incomplete":
                break
    assert kinds.count("response.output_text.delta") == 8


@THEIR_WARNING
def test_openai_realtime(open_ai):
    with open_ai.realtime.connect(model=MODEL) as connection:
        connection.session.update(session={"type": "realtime", "output_modalities": ["text"]})
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}
        connection.conversation.item.create(item=item)
        connection.response.create(response={"max_output_tokens": 10})
        kinds = []
        for event in connection:
            kinds.append(event.type)
            if event.type == "response.done":
                assert event.response.usage.output_tokens == 10
                break
    assert kinds.count("response.output_text.delta") == 10
    assert "session.updated" in kinds and "conversation.item.added" in kinds


def test_openai_errors(open_ai, server):
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        open_ai.chat.completions.create(model="another", messages=TALK)
    with pytest.raises(openai.BadRequestError, match="max_tokens"):
        open_ai.chat.completions.create(model=MODEL, messages=TALK, max_tokens=0)
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="wrong", max_retries=0) as stranger:
        with pytest.raises(openai.AuthenticationError):
            stranger.chat.completions.create(model=MODEL, messages=TALK)
        with pytest.raises(websockets.InvalidStatus, match="401"), stranger.realtime.connect(model=MODEL):
            pass


def test_anthropic(claude):
    whole = claude.messages.create(model=MODEL, max_tokens=11, messages=TALK)
    assert whole.stop_reason == "max_tokens" and whole.usage.output_tokens == 11
    with claude.messages.stream(model=MODEL, max_tokens=11, messages=TALK) as stream:
        texts = list(stream.text_stream)
        final = stream.get_final_message()
    assert len(texts) == 11 and "".join(texts) == final.content[0].text
    assert final.usage.output_tokens == 11
    assert [m.id for m in claude.models.list()] == [MODEL]


def test_anthropic_errors(claude, server):
    with pytest.raises(anthropic.NotFoundError, match="does not exist"):
        claude.messages.create(model="another", max_tokens=11, messages=TALK)
    with (
        anthropic.Anthropic(base_url=server.url, api_key="wrong", max_retries=0) as stranger,
        pytest.raises(anthropic.AuthenticationError),
    ):
        stranger.messages.create(model=MODEL, max_tokens=11, messages=TALK)


def test_ollama(llama):
    options = {"num_predict": 13}
    whole = llama.generate(MODEL, "hello", options=options)
    assert whole.eval_count == 13 and whole.done_reason == "length"
    lines = list(llama.generate(MODEL, "hello", options=options, stream=True))
    assert sum(bool(line.response) for line in lines) == 13 and lines[-1].eval_count == 13
    talk = list(llama.chat(MODEL, TALK, options=options, stream=True, logprobs=True))
    assert sum(len(line.logprobs or ()) for line in talk) == 13
    assert llama.chat(MODEL, TALK, options=options).message.content
    assert [m.model for m in llama.list().models] == ["simulated:latest"]
    assert llama.show(MODEL).capabilities == ["completion"]


def test_ollama_errors(llama):
    with pytest.raises(ollama.ResponseError, match="does not exist") as caught:
        llama.generate("another", "hello")
    assert caught.value.status_code == 404


def test_websockets_client(server):
    headers = {"authorization": f"Bearer {KEY}"}
    url = server.url.replace("http", "ws") + f"/v1/realtime?model={MODEL}"
    with connect(url, additional_headers=headers) as socket:
        assert json.loads(socket.recv())["type"] == "session.created"
        socket.send("not JSON")
        assert json.loads(socket.recv())["error"]["type"] == "invalid_request_error"
        socket.send('{"type": "response.create", "response": {"max_output_tokens": 5}}')
        kinds = []
        while "response.done" not in kinds:
            kinds.append(json.loads(socket.recv())["type"])
    assert kinds.count("response.output_text.delta") == 5


def test_async_clients_side_by_side(server):
    async def chat():
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=KEY) as client:
            stream = await client.chat.completions.create(model=MODEL, messages=TALK, max_tokens=20, stream=True)
            return sum([bool(c.choices[0].delta.content) async for c in stream])

    async def realtime():
        async with (
            openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=KEY) as client,
            client.realtime.connect(model=MODEL) as connection,
        ):
            await connection.response.create(response={"max_output_tokens": 20})
            seen = 0
            async for event in connection:
                seen += event.type == "response.output_text.delta"
                if event.type == "response.done":
                    return seen

    async def messages():
        async with (
            anthropic.AsyncAnthropic(base_url=server.url, api_key=KEY) as client,
            client.messages.stream(model=MODEL, max_tokens=20, messages=TALK) as stream,
        ):
            return len([text async for text in stream.text_stream])

    async def lines():
        client = ollama.AsyncClient(host=server.url, headers={"authorization": f"Bearer {KEY}"})
        parts = await client.generate(MODEL, "hello", options={"num_predict": 20}, stream=True)
        seen = sum([bool(part.response) async for part in parts])
        await client._client.aclose()
        return seen

    async def all_at_once():
        return await asyncio.gather(chat(), realtime(), messages(), lines())

    assert asyncio.run(all_at_once()) == [20, 20, 20, 20]
