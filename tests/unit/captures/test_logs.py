"""Logs of browsers and of mitmproxy."""

import base64
import datetime
import io
import json

import capture_build as build
import numpy as np
import pytest

from specsonar.errors import InputError, LimitError
from specsonar.importers import look, mitmproxy, read
from specsonar.trace import NOT_SAID

START = 1_795_965_000.25
DELTAS = [{"type": "response.output_text.delta", "response_id": "r", "delta": f"w{i}"} for i in range(8)]
MESSAGES = [{"type": "response.created", "response": {"id": "r"}}, *DELTAS,
            {"type": "response.done", "response": {"id": "r", "usage": {"output_tokens": 8}}}]  # fmt: skip


def loaded(value, *, lines=False):
    text = "\n".join(map(json.dumps, value)) + "\n" if lines else json.dumps(value)
    return look(io.BytesIO(text.encode()))


def payload(index):
    return build.event(index).decode().removeprefix("data: ").strip()


def is_steady(stream, events=8, abs_=0.0006):
    assert len(stream) == events and np.diff(stream.t_ns) / 1e6 == pytest.approx([20.0] * (events - 1), abs=abs_)
    return True


def entry(**fields):
    return {
        "request": {"url": "http://h/v1/chat?key=secret", "postData": {"text": '{"model": "mm", "max_tokens": 9}'}},
        "response": {"status": 200, "headers": [{"name": "Content-Type", "value": "text/event-stream"}],
                     "content": {"mimeType": "text/event-stream"}},
        **fields,
    }  # fmt: skip


def har(*entries):
    return loaded({"log": {"version": "1.2", "pages": [], "entries": list(entries)}})


def iso(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat()


@pytest.mark.parametrize("written", [float, lambda s: s * 1000, iso], ids=["seconds", "milliseconds", "ISO 8601"])
def test_event_source_messages_of_a_har(written):
    messages = [{"time": written(START + 0.02 * i), "eventName": "message", "data": payload(i)} for i in range(8)]
    (stream,) = har(entry(_eventSourceMessages=messages), entry(_resourceType="image", response={})).streams
    assert is_steady(stream) and stream.tokens.tolist() == [1] * 8
    assert stream.meta["route"] == "/v1/chat" and stream.meta["model"] == "mm"
    assert "secret" not in json.dumps(dict(stream.meta))


@pytest.mark.parametrize("opcode", [1, 2, None])
def test_web_socket_messages_of_a_har_as_text_and_as_binary(opcode):
    def coded(value):
        text = json.dumps(value)
        return text if opcode != 2 else base64.b64encode(text.encode()).decode()

    messages = [{"type": "send", "time": START, "opcode": opcode, "data": coded({"type": "response.create"})}]
    messages += [{"type": "receive", "time": START + 0.02 * (i + 1), "opcode": opcode, "data": coded(m)}
                 for i, m in enumerate(MESSAGES)]  # fmt: skip
    messages.insert(3, {"type": "receive", "time": START + 0.05, "opcode": 9, "data": ""})
    (stream,) = har(entry(_webSocketMessages=messages * 1)).streams
    assert is_steady(stream) and stream.total_tokens == 8


def test_a_har_with_and_without_times_reads_the_first_and_counts_the_others():
    messages = [{"time": START + 0.02 * i, "data": payload(i)} for i in range(8)]
    trace = har(entry(_eventSourceMessages=messages), entry())
    assert is_steady(trace.streams[0]) and [f.code for f in trace.findings] == ["I004"]
    assert [f.code for f in har(entry()).findings] == ["I010"]
    assert "none of which" in har(entry(response={})).findings[0].message


def test_an_address_that_is_none_costs_the_route_only():
    odd = entry(_eventSourceMessages=[{"time": START + 0.02 * i, "data": payload(i)} for i in range(8)])
    odd["request"]["url"] = "http://[broken/v1"
    (stream,) = har(odd).streams
    assert is_steady(stream) and "route" not in stream.meta


def cdp(*events):
    return [{"method": "Network." + name, "params": {"requestId": "7.1", **params}} for name, params in events]


OPENED = [
    ("requestWillBeSent", {"timestamp": 5123.0, "request": {"url": "http://h/v1/x", "postData": '{"model":"mm"}'}}),
    ("responseReceived", {"timestamp": 5123.01, "response": {"status": 200, "mimeType": "text/event-stream"}}),
]


def reads(*, data):
    return [("dataReceived", {"timestamp": 5123.1 + 0.02 * i, "dataLength": len(build.event(i)),
                              **({"data": base64.b64encode(build.event(i)).decode()} if data else {})})
            for i in range(8)]  # fmt: skip


MESSAGE_EVENTS = [("eventSourceMessageReceived", {"timestamp": 5123.1 + 0.02 * i, "eventName": "message",
                                                  "data": payload(i)}) for i in range(8)]  # fmt: skip


@pytest.mark.parametrize(
    "events", [reads(data=True), MESSAGE_EVENTS, [*reads(data=False), *MESSAGE_EVENTS]], ids=["bytes", "sse", "both"]
)
@pytest.mark.parametrize("form", ["lines", "array", "driver"])
def test_a_devtools_log_with_content_gives_events(events, form):
    log = cdp(*OPENED, *events)
    if form == "driver":
        log = [{"level": "INFO", "message": json.dumps({"message": e, "webview": "A"}), "timestamp": 1} for e in log]
    (stream,) = (found := loaded(log, lines=form != "array")).streams
    assert is_steady(stream, abs_=0.0011) and stream.tokens.tolist() == [1] * 8 and not found.findings
    assert stream.meta["model"] == "mm" and stream.start_ns == 5_123_000_000_000


def test_a_devtools_log_without_content_gives_times_and_sizes():
    (stream,) = (found := loaded(cdp(*OPENED, *reads(data=False)), lines=True)).streams
    assert is_steady(stream, abs_=0.0011) and stream.count_source == NOT_SAID and (stream.tokens == -1).all()
    assert [f.code for f in found.findings] == ["I020"]
    with pytest.raises(InputError, match="none of which"):
        read(io.BytesIO("\n".join(map(json.dumps, cdp(*OPENED))).encode()))


def test_web_socket_frames_of_a_devtools_log():
    def frame(value):
        return {"opcode": 1, "payloadData": json.dumps(value)}

    events = [("webSocketCreated", {"url": "ws://h/rt"}),
              ("webSocketFrameSent", {"timestamp": 5.0, "response": frame({"type": "response.create"})})]  # fmt: skip
    events += [("webSocketFrameReceived", {"timestamp": 5 + 0.02 * i, "response": frame(m)})
               for i, m in enumerate(MESSAGES, 1)]  # fmt: skip
    (stream,) = loaded(cdp(*events), lines=True).streams
    assert is_steady(stream) and stream.meta["route"] == "/rt"


def netlog(*, raw):
    types = {
        "URL_REQUEST_START_JOB": 102,
        "URL_REQUEST_JOB_BYTES_READ": 123,
        "URL_REQUEST_JOB_FILTERED_BYTES_READ": 124,
    }
    events = [{"params": {"url": "http://h/x"}, "source": {"id": 50}, "time": "800000", "type": 102}]
    for i in range(8):
        params = {"byte_count": len(build.event(i))}
        if raw:
            params["bytes"] = base64.b64encode(build.event(i)).decode()
        events += [
            {"params": params, "source": {"id": 50}, "time": str(800_100 + 20 * i), "type": t} for t in (123, 124)
        ]
    return {"constants": {"logEventTypes": types}, "events": events}


def test_a_netlog_gives_reads_in_whole_milliseconds_or_their_content():
    (stream,) = loaded(netlog(raw=False)).streams
    assert is_steady(stream) and stream.resolution_ns == 1_000_000 and stream.count_source == NOT_SAID
    (stream,) = loaded(netlog(raw=True)).streams
    assert is_steady(stream) and stream.tokens.tolist() == [1] * 8 and stream.resolution_ns == 1_000_000
    odd = netlog(raw=False)
    odd["events"].insert(3, {"type": {"a": 1}, "source": [], "time": None})
    assert loaded(odd).events == 8
    cut = json.dumps(netlog(raw=True))[:-200]
    trace = look(io.BytesIO(cut.encode()))
    assert trace.events == 7 and [f.code for f in trace.findings] == ["I001"]


def tnet(value):
    if value is None:
        body, mark = b"", b"~"
    elif isinstance(value, bool):
        body, mark = str(value).lower().encode(), b"!"
    elif isinstance(value, int):
        body, mark = b"%d" % value, b"#"
    elif isinstance(value, float):
        body, mark = repr(value).encode(), b"^"
    elif isinstance(value, str):
        body, mark = value.encode(), b";"
    elif isinstance(value, bytes):
        body, mark = value, b","
    elif isinstance(value, list):
        body, mark = b"".join(map(tnet, value)), b"]"
    else:
        body, mark = b"".join(tnet(k) + tnet(v) for k, v in value.items()), b"}"
    return b"%d:%s%s" % (len(body), body, mark)


SOCKET = {"websocket": {"messages": [[1, True, b'{"type":"response.create"}', START, False, False]]
                        + [[1, False, json.dumps(m).encode(), START + 0.02 * i, False, False]
                           for i, m in enumerate(MESSAGES, 1)]},
          "request": {"path": b"/rt"}, "type": "http"}  # fmt: skip
RAW = {"messages": [[True, build.REQUEST, START], [False, build.HEAD, START + 0.01]]
       + [[False, build.chunk(build.event(i)), START + 0.1 + 0.02 * i] for i in range(8)]
       + [[False, b"0\r\n\r\n", START + 0.3]], "type": "tcp"}  # fmt: skip
HTTP = {"response": {"headers": [[b"Content-Type", b"text/event-stream"]], "content": b"data: 1\n\n"}, "type": "http"}


def test_flows_of_mitmproxy_of_both_kinds_with_times():
    trace = look(io.BytesIO(tnet(SOCKET) + tnet(RAW) + tnet(HTTP)))
    assert all(is_steady(s, abs_=0.0011) for s in trace.streams) and len(trace.streams) == 2
    assert [f.code for f in trace.findings] == ["I004"]
    assert trace.streams[0].meta["route"] == "/rt" and trace.streams[1].meta["model"] == "mm"


def test_a_cut_file_of_flows_keeps_the_whole_ones():
    trace = look(io.BytesIO(tnet(RAW) + tnet(SOCKET)[:-300]))
    assert [len(s) for s in trace.streams] == [8] and [f.code for f in trace.findings] == ["I001"]
    with pytest.raises(InputError, match="none of which"):
        read(io.BytesIO(tnet({"type": "dns", "request": {}})))


def test_flows_that_lie_about_their_size_or_depth_are_bounded():
    deep = b"0:]"
    for _ in range(3000):
        deep = b"%d:%s]" % (len(deep), deep)
    flow = tnet({"type": "tcp", "messages": []})
    for bad in (flow + b"9" * 5 + b":}", tnet({"type": "tcp"}) + deep, flow + b"\0" * 100):
        with pytest.raises(InputError):
            read(io.BytesIO(bad))
    with pytest.raises(LimitError, match="256 MiB"):
        read(io.BytesIO(tnet(RAW) + b"900000000:4:type;"))
    assert mitmproxy.sniff(b"12:hello world") == 0


def test_lines_of_a_mitmproxy_addon_are_told_apart_by_flow():
    lines = [{"flow": f, "t": START + 0.02 * i + shift, "t_rel": 0.1 + 0.02 * i, "data": build.event(i).decode()}
             for i in range(8) for f, shift in (("a", 0), ("b", 0.003))]  # fmt: skip
    trace = loaded(lines, lines=True)
    assert all(is_steady(s, abs_=0.0011) for s in trace.streams) and len(trace.streams) == 2
    assert trace.streams[0].t_ns[0] - trace.streams[0].start_ns == pytest.approx(1e8, abs=1000)
    cut = "\n".join(map(json.dumps, lines))[:-10]
    assert [f.code for f in look(io.BytesIO(cut.encode())).findings] == ["I001"]
