"""Official clients, unchanged, behind a proxy that hides: the same text, another rhythm, other sizes."""

import re
import socket

import anthropic
import httpx2
import ollama
import openai
import pytest
from upstream import Upstream

from specsonar import fingerprint
from specsonar.cli.app import cli
from specsonar.probe import probe
from specsonar.sources.defences import Policy
from specsonar.sources.keeper import Keeper
from specsonar.sources.proxy.proxy import Proxy
from specsonar.sources.serve import Server
from specsonar.sources.service import Service

MODEL = "simulated"
TALK = [{"role": "user", "content": "hello"}]
TOKENS = 40
REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"


def openai_chat(url):
    with openai.OpenAI(base_url=f"{url}/v1", api_key="-", max_retries=0) as client:
        chunks = client.chat.completions.create(model=MODEL, messages=TALK, max_tokens=TOKENS, stream=True)
        return "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)


def anthropic_messages(url):
    with (
        anthropic.Anthropic(base_url=url, api_key="-", max_retries=0) as client,
        client.messages.stream(model=MODEL, max_tokens=TOKENS, messages=TALK) as stream,
    ):
        return "".join(stream.text_stream)


def ollama_chat(url):
    client = ollama.Client(host=url)
    lines = list(client.chat(MODEL, TALK, options={"num_predict": TOKENS}, stream=True))
    client._client.close()
    return "".join(line.message.content or "" for line in lines)


def through(policy, client, server):
    """What the client got, and the streams that were recorded."""
    with Keeper() as keeper:
        with Proxy(server.url, keeper, defence=Policy.parse(policy)) as proxy:
            text = client(proxy.url)
        assert keeper.findings == []
    return text, keeper.trace().streams


@pytest.mark.parametrize(
    ("client", "policy"),
    [
        (openai_chat, "delay=exponential:3ms+pad=512"),
        (openai_chat, "batch=20ms+pad=2048"),
        (openai_chat, "split"),
        (anthropic_messages, "pace=3ms+pad=700"),
        (ollama_chat, "scatter=uniform:9ms+pad=256"),
    ],
)
def test_clients_get_the_same_text_and_the_trace_says_what_was_done(client, policy):
    service = Service(step_ms=5.0, ttft_ms=1.0)
    with Server(service) as one, Server(service) as other:
        plain = client(one.url)
        hidden, streams = through(policy, client, other)
    assert hidden == plain and len(plain) > TOKENS
    assert [one.meta["defence"] for one in streams] == [policy]
    assert len(streams[0]) >= TOKENS


def connect(url):
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), 30)


def events(sock):
    """The chunks of one answer as they came, without the head."""
    got = bytearray()
    while not got.endswith(b"0\r\n\r\n"):
        got += sock.recv(1 << 16)
    body = bytes(got).partition(b"\r\n\r\n")[2]
    while not body.startswith(b"0\r\n"):
        size, _, body = body.partition(b"\r\n")
        yield body[: int(size, 16)]
        body = body[int(size, 16) + 2 :]


@pytest.mark.parametrize(("policy", "all_alike"), [("pad=1024", True), ("none", False)])
def test_padded_writes_are_all_of_one_size(policy, all_alike):
    with (
        Upstream(events=20, word="w" * 3, gated=True) as up,
        Keeper() as keeper,
        Proxy(up.url, keeper, defence=Policy.parse(policy)) as proxy,
        connect(proxy.url) as sock,
    ):
        sock.sendall(REQUEST)
        up.go(20)
        writes = list(events(sock))
    assert ({len(write) % 1024 for write in writes} == {0}) is all_alike
    assert re.findall(rb"www(\d+) ", b"".join(writes)) == [str(k).encode() for k in range(20)]


def seen(policy):
    """The verdict of one who asks through the proxy, and of the proxy's own recording."""
    with Server(Service(step_ms=20.0, ttft_ms=5.0)) as server, Keeper() as keeper:
        with Proxy(server.url, keeper, defence=Policy.parse(policy)) as proxy:
            outside = probe(proxy.url, streams=2, tokens=200, environment={}).fingerprint
        return outside.verdict, fingerprint(keeper.trace()).verdict


def test_without_a_policy_an_observer_sees_the_speculation():
    assert seen("none") == ("speculative", "speculative")


@pytest.mark.parametrize("policy", ["pace=8ms", "batch=100ms"])
def test_an_observer_sees_another_service_and_the_recording_the_true_one(policy):
    outside, inside = seen(policy)
    assert inside == "speculative"
    # an even pace with the noise of a busy machine is what plain decoding of 8 ms steps looks like
    disguise = {"pace=8ms": ("paced", "autoregressive", "undetermined"), "batch=100ms": ("buffered", "undetermined")}
    assert outside in disguise[policy]


def test_a_stream_that_cannot_be_hidden_is_refused_and_other_answers_pass():
    with (
        Server(Service(step_ms=1.0)) as server,
        Keeper() as keeper,
        Proxy(server.url, keeper, defence=Policy.parse("pace=8ms")) as proxy,
    ):
        headers = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13",
                   "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA=="}  # fmt: skip
        answer = httpx2.get(f"{proxy.url}/v1/realtime", headers=headers)
        assert answer.status_code == 501 and "WebSocket" in answer.json()["error"]["message"]
        plain = httpx2.get(f"{proxy.url}/v1/models")
        assert plain.status_code == 200 and plain.json()["data"][0]["id"] == MODEL


def test_a_pace_that_cannot_keep_up_fills_its_room_and_the_upstream_waits():
    """400 events of 100 kB behind one event a minute: the proxy takes its room, and no more."""
    with (
        Upstream(events=400, word="w" * 100_000) as up,
        Keeper() as keeper,
        Proxy(up.url, keeper, defence=Policy.parse("pace=60s")) as proxy,
        connect(proxy.url) as sock,
    ):
        sock.sendall(REQUEST)
        assert b"hello" in sock.recv(1 << 16)
        before = -1
        while before < keeper.events or keeper.events < 20:
            before = keeper.events
            for _ in range(10):
                proxy.poll(0.1)
    assert keeper.events < 200


def test_the_command_refuses_what_is_no_policy(capfd):
    with pytest.raises(SystemExit) as ended:
        cli.main(["proxy", "http://127.0.0.1:1", "--defend", "pace=quick"])
    assert ended.value.code == 2
    assert "quick" in capfd.readouterr().err
