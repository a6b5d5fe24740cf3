"""curl traces and stamped lines."""

import io

import capture_build as build
import numpy as np
import pytest

from specsonar.errors import InputError, UsageError
from specsonar.importers import look, read

HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
SENT = 'POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 14\r\n\r\n{"model":"mm"}'


def stamp(us):
    seconds, us = divmod(us, 1_000_000)
    return f"{seconds // 3600 % 24:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{us:06d}"


def block(us, what, data, *, ids="", ascii_=True):
    """A block as curl prints it."""
    data = data.encode() if isinstance(data, str) else data
    arrow = "=>" if what.startswith("Send") else "<="
    lines = [f"{stamp(us)} {ids}{arrow} {what}, {len(data)} bytes ({hex(len(data))})"]
    at, width = 0, 64 if ascii_ else 16
    while at < len(data):
        shown = f"{at:04x}: "
        if not ascii_:
            row = data[at : at + width]
            shown += "".join(f"{b:02x} " for b in row).ljust(48)
        count = 0
        while count < width and at + count < len(data):
            if ascii_ and data[at + count : at + count + 2] == b"\r\n":
                at += count + 2 - width
                break
            byte = data[at + count]
            shown += chr(byte) if 0x20 <= byte < 0x7F else "."
            if ascii_ and data[at + count + 1 : at + count + 3] == b"\r\n":
                at += count + 3 - width
                break
            count += 1
        at += width
        lines.append(shown)
    return "\n".join(lines) + "\n"


def trace(*, begin=36_000_000_000, ids="", ascii_=True, head=HEAD, events=6, make=build.event, frame=build.chunk):
    out = [f"{stamp(begin)} {ids}== Info:   Trying 127.0.0.1:80...\n"]
    sent_head, _, sent_body = SENT.partition("\r\n\r\n")
    out.append(block(begin + 1000, "Send header", sent_head + "\r\n\r\n", ids=ids, ascii_=ascii_))
    out.append(block(begin + 1010, "Send data", sent_body, ids=ids, ascii_=ascii_))
    heads = [line + "\r\n" for line in head.split("\r\n")[:-1]]
    out += [block(begin + 2000, "Recv header", line, ids=ids, ascii_=ascii_) for line in heads]
    bodies = [frame(make(index, 1 + index % 2)) for index in range(events)]
    out += [block(begin + 20_000 * n, "Recv data", data, ids=ids, ascii_=ascii_) for n, data in enumerate(bodies, 1)]
    return "".join(out)


def gaps_ms(content):
    (stream,) = read(io.BytesIO(content.encode())).streams
    return (np.diff(stream.t_ns) / 1e6).tolist(), stream


H2 = HEAD.replace("HTTP/1.1 200 OK", "HTTP/2 200 ").replace("transfer-encoding: chunked\r\n", "")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ascii_": False},
        {"ids": "[3-0] "},
        {"begin": 86_400_000_000 - 50_000},  # midnight between the second event and the third
        {"head": H2, "frame": bytes},
        {"head": H2, "frame": bytes, "ascii_": False},
        {"frame": bytes},  # a curl that takes the sizes of the chunks off
        {"head": "HTTP/1.1 100 Continue\r\n\r\n" + HEAD},
        {"make": lambda i, n: build.event(i, n).replace(b'"w', '"é…'.encode())},
    ],
    ids=["ascii", "hex", "ids", "midnight", "h2", "h2 hex", "unframed", "interim", "beyond ascii"],
)
def test_every_form_of_a_trace_gives_the_events(options):
    gaps, stream = gaps_ms(trace(**options))
    assert gaps == [20.0] * 5 and stream.tokens.tolist() == [1, 2, 1, 2, 1, 2]
    assert stream.meta["model"] == "mm" and stream.meta["route"] == "/v1/chat/completions"
    assert stream.t_ns[0] - stream.start_ns in (18_990_000, 19_000_000)


def test_named_events_and_lines_of_json_get_their_line_feeds_back():
    def anthropic(index, count):
        return (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
            b'"delta":{"type":"text_delta","text":"w."}}\n\n'
        )

    def ollama(index, count):
        return b'{"model":"m","created_at":"2026-01-01T00:00:00Z","response":"w","done":false}\n'

    for make, head in ((anthropic, HEAD), (ollama, HEAD.replace("text/event-stream", "application/x-ndjson"))):
        gaps, _ = gaps_ms(trace(make=make, head=head))
        assert gaps == [20.0] * 5


def test_transfers_at_the_same_time_are_told_apart_by_their_ids():
    one, two = (trace(ids=f"[{i}-0] ", begin=36_000_000_000 + 7000 * i).split("\n") for i in range(2))
    blocks = []
    for lines in (one, two):
        for line in lines:
            blocks.append([line]) if "[" in line[:20] else blocks[-1].append(line)
    blocks.sort(key=lambda b: b[0][:15])
    found = read(io.BytesIO("\n".join(line for b in blocks for line in b if line).encode() + b"\n"))
    assert [len(s) for s in found.streams] == [6, 6] and not found.findings


def test_a_trace_of_several_requests_in_a_row_has_a_stream_for_each():
    content = trace() + trace(begin=36_001_000_000, events=4)
    assert [len(s) for s in read(io.BytesIO(content.encode())).streams] == [6, 4]


@pytest.mark.parametrize(
    ("content", "word", "advice"),
    [
        ("== Info:   Trying 127.0.0.1:80...\n=> Send header, 9 bytes (0x9)\n", "without times", "--trace-time"),
        ("10:00:00.000001 *   Trying 1.2.3.4:80...\n10:00:00.000002 > GET / HTTP/1.1\n", "first read", "--trace-ascii"),
        ("10:00:00.000001 == Info: Could not resolve host\n", "nothing was received", "failed"),
    ],
)  # fmt: skip
def test_traces_without_what_is_needed_are_refused(content, word, advice):
    with pytest.raises(InputError) as refused:
        read(io.BytesIO(content.encode()))
    assert word in refused.value.message and advice in refused.value.hint


def stamped(stamps, *, blank=0.0001):
    lines = []
    for index, text in enumerate(stamps):
        lines.append(f"{text(index, 0.0)} {build.event(index).decode().strip()}\n{text(index, blank)} \n")
    return "".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        lambda i, more: f"{1_700_000_000 + 0.02 * i + more:.6f}",
        lambda i, more: f"{0.02 * i + more:.6f}",
        lambda i, more: f"{more or (0.0199 if i else 0.06):.6f}",  # -i: since the line before
        lambda i, more: "10:20:%09.6f" % (30 + 0.02 * i + more),
        lambda i, more: "2026-11-29T10:20:%09.6f" % (30 + 0.02 * i + more),
        lambda i, more: f"{stamp(round(86_399_950_000 + 20_000 * i + more * 1e6))}",  # midnight
    ],
    ids=["epoch", "since the start", "since the line", "clock", "date", "midnight"],
)
def test_every_kind_of_stamp_gives_the_times_of_the_data_lines(text):
    gaps, _ = gaps_ms(stamped([text] * 12))
    assert gaps == pytest.approx([20.0] * 11, abs=0.002)


def test_stamps_before_lines_of_json_are_read():
    lines = [f'{0.02 * i:.6f} {{"model":"m","created_at":"x","response":"w","done":false}}\n' for i in range(9)]
    gaps, _ = gaps_ms("".join(lines))
    assert gaps == pytest.approx([20.0] * 8, abs=0.002)


@pytest.mark.parametrize("text", ["Nov 29 10:20:30", "10:20:30", "1795964469"])
def test_stamps_of_whole_seconds_are_refused(text):
    with pytest.raises(InputError, match="whole seconds") as refused:
        read(io.BytesIO(stamped([lambda i, more: text] * 9).encode()))
    assert "%.s" in refused.value.hint


def test_lines_that_are_not_stamped_are_counted_and_gaps_are_refused():
    content = stamped([lambda i, more: f"{0.02 * i + more:.6f}"] * 9)
    found = look(io.BytesIO(content.replace("\n", "\noops here\n", 1).encode()))
    assert [f.code for f in found.findings] == ["I004"] and found.events == 9
    for data in (content, trace()):
        with pytest.raises(UsageError):
            read(io.BytesIO(data.encode()), gaps=True)
