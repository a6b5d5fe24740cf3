"""Whole captures, built packet by packet, through `read`."""

import gzip
import io

import capture_build as build
import numpy as np
import pytest

from specsonar.importers import read
from specsonar.trace import COUNTED, NOT_SAID

STEP = 20_000_000


def captured(*packets, **options):
    return read(io.BytesIO(build.pcap(list(packets), nano=True, **options)))


def codes(trace):
    return [f.code for f in trace.findings]


def test_answers_of_a_kept_connection_and_of_others_are_kept_apart():
    one = build.Talk().open().answer(10).answer(12).close()
    other = build.Talk(client=(b"\x0a\0\0\1", 50001), t_ns=one.packets[0][0] + 3_000_000).open().answer(11, step_ms=7)
    trace = captured(*build.interleaved(one, other))
    assert sorted(len(s) for s in trace.streams) == [10, 11, 12] and not trace.findings
    for stream in trace.streams:
        assert set(np.diff(stream.t_ns)) == {7_000_000 if len(stream) == 11 else STEP}
        assert stream.tokens.tolist() == [1 + i % 3 for i in range(len(stream))] and stream.count_source == COUNTED
        assert stream.resolution_ns == 1 and stream.meta["model"] == "mm"
        assert stream.t_ns[0] - stream.start_ns == 1_000_000 + (7_000_000 if len(stream) == 11 else STEP)


def test_ip_version_6_with_a_vlan_reads_the_same():
    plain = build.Talk().open().answer(8)
    talk = build.Talk(client=build.IP6_CLIENT, server=build.IP6_SERVER).open().answer(8)
    tagged = [(t, d[:12] + b"\x81\0\0\5" + d[12:]) for t, d in talk.packets]
    assert captured(*tagged).streams[0].t_ns.tolist() == captured(*plain.packets).streams[0].t_ns.tolist()


def test_packets_out_of_order_and_twice_change_nothing_but_the_time_of_what_waited():
    packets = build.Talk().open().answer(10).packets
    whole = captured(*packets).streams[0]
    server = [i for i, (_, d) in enumerate(packets) if b"data:" in d]
    late, next_one = server[4], server[5]
    moved = list(packets)
    moved[late] = (packets[next_one][0] + 1, packets[late][1])  # arrives behind the next event
    again = [(packets[-1][0] + 5, packets[server[2]][1]), (packets[-1][0] + 6, packets[server[7]][1])]
    acks = [p for i, p in enumerate(moved) if i not in (late + 1, next_one + 1)]
    trace = captured(*sorted(acks + again, key=lambda p: p[0]))
    (stream,) = trace.streams
    expected = whole.t_ns.copy()
    expected[4] = expected[5] = packets[next_one][0] + 1
    assert stream.t_ns.tolist() == expected.tolist() and stream.tokens.tolist() == whole.tokens.tolist()
    assert stream.read[4] == stream.read[5] and not trace.findings


def test_a_missing_packet_splits_the_answer_and_makes_no_long_gap():
    trace = captured(*build.Talk().open().answer(20, lost={7}).answer(6).packets)
    assert [len(s) for s in trace.streams] == [7, 12, 6] and codes(trace) == ["I019"]
    for stream in trace.streams:
        assert set(np.diff(stream.t_ns)) == {STEP}
    assert trace.streams[1].start_ns is None and trace.streams[2].start_ns is not None
    assert [s.tokens.tolist() for s in trace.streams[:2]] == [
        [1 + i % 3 for i in range(7)], [1 + i % 3 for i in range(8, 20)]
    ]  # fmt: skip


def test_behind_a_hole_neither_a_running_total_nor_the_sum_is_believed():
    def event(number):
        return (
            b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"w"}}],'
            b'"usage":{"completion_tokens":%d}}\n\n' % (2 * number + 2)
        )

    def without_usage(number):
        return b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"w"}}]}\n\n'

    for made, kept, tokens in ((event, 5, 2), (without_usage, 6, -1)):
        talk = build.Talk().open()
        talk.say("client", build.REQUEST)
        talk.say("server", build.HEAD)
        for number in range(10):
            talk.say("server", build.chunk(made(number)), after_ms=20, captured=number != 3)
            talk.say("client")
        talk.say("server", build.chunk(b'data: {"choices":[],"usage":{"completion_tokens":20}}\n\n') + b"0\r\n\r\n")
        trace = captured(*talk.packets)
        before, after = trace.streams
        assert len(before) == 3 and len(after) == kept and after.tokens.tolist() == [tokens] * kept
        assert after.total_tokens is None and (tokens > 0 or after.count_source == NOT_SAID)
        assert codes(trace) == ["I019"]


def test_a_snapshot_length_that_cuts_the_payload_is_named():
    packets = build.Talk().open().answer(30).packets
    with pytest.raises(Exception, match="no streamed answer") as refused:
        captured(*packets, snaplen=100)
    assert "tcpdump -s 0" in refused.value.hint


def test_a_capture_of_the_server_side_alone_is_read():
    packets = [p for p in build.Talk().open().answer(9).packets if p[1][26:30] == build.SERVER[0]]
    (stream,) = captured(*packets).streams
    assert len(stream) == 9 and set(np.diff(stream.t_ns)) == {STEP}


def test_a_capture_that_begins_in_the_middle_is_read_from_the_next_request_on():
    packets = build.Talk().open().answer(9).answer(9).packets
    middle = [i for i, (_, d) in enumerate(packets) if b"data:" in d][4]
    (stream,) = captured(*packets[middle:]).streams
    assert len(stream) == 9 and set(np.diff(stream.t_ns)) == {STEP}


def test_numbers_that_wrap_around_are_followed():
    talk = build.Talk(begin=2**32 - 400).open().answer(12)
    (stream,) = captured(*talk.packets).streams
    assert len(stream) == 12 and set(np.diff(stream.t_ns)) == {STEP}


def test_a_key_log_beside_the_capture_or_named_by_the_environment_is_used(tmp_path, monkeypatch):
    import pathlib
    import struct

    golden = pathlib.Path(__file__).parents[2] / "golden" / "captures"
    content = (golden / "tls13_sse.with_keys.pcapng").read_bytes()
    at = 0
    while True:  # the block that holds the keys
        kind, size = struct.unpack_from("<II", content, at)
        if kind == 0xA:
            keys, rest = content[at + 20 : at + size - 4].rstrip(b"\0"), content[:at] + content[at + size :]
            break
        at += size
    capture = tmp_path / "one.pcapng"
    capture.write_bytes(rest)
    assert codes(read(capture)) == ["I020"]
    for name in ("one.pcapng.keys", "one.keylog"):
        (tmp_path / name).write_bytes(keys)
        assert read(capture).streams[0].total_tokens == 40
        (tmp_path / name).unlink()
    (tmp_path / "elsewhere").write_bytes(keys)
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "elsewhere"))
    trace = read(capture)
    assert trace.streams[0].total_tokens == 40
    assert keys.split()[2].decode() not in repr(trace.meta) + repr(trace.findings)


def test_a_packed_capture_reads_the_same():
    content = build.pcap(build.Talk().open().answer(8).packets, nano=True)
    assert (
        read(io.BytesIO(gzip.compress(content))).streams[0].t_ns.tolist()
        == read(io.BytesIO(content)).streams[0].t_ns.tolist()
    )


def test_an_event_without_end_gives_its_connection_up_and_keeps_the_rest():
    talk = build.Talk().open().answer(7)
    talk.say("client", build.REQUEST)
    talk.say("server", build.HEAD)
    talk.say("server", build.chunk(b"data: {"))
    for _ in range(20):
        talk.say("server", build.chunk(b"x" * 60_000), after_ms=1)
        talk.say("client")
    talk.say("server", b"0\r\n\r\n")
    talk.answer(9)
    trace = captured(*talk.packets)
    assert [len(s) for s in trace.streams] == [7, 9] and codes(trace) == ["I008"]


def test_connections_that_are_not_http_cost_nothing_and_say_nothing():
    other = build.Talk(client=(b"\x0a\0\0\1", 50009), server=(b"\x0a\0\0\2", 5432)).open()
    for _ in range(50):
        other.say("client", b"Q\0\0\0\x0dselect 1\0", after_ms=3)
        other.say("server", b"T\0\0\0 rows")
    trace = captured(*build.interleaved(build.Talk().open().answer(8), other))
    assert [len(s) for s in trace.streams] == [8] and not trace.findings
