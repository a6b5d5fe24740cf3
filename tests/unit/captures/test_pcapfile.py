import io
import struct

import capture_build as build
import pytest

from specsonar.bytefile import ByteFile
from specsonar.errors import FormatError, InputError
from specsonar.importers import read
from specsonar.importers.pcapfile import Capture

T = 1_700_000_000_123_456_789
DATA = (b"first", b"second one", b"x")


def packets(content):
    with ByteFile(io.BytesIO(content)) as source:
        capture = Capture(source)
        return list(capture.packets()), capture


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nano", [False, True])
def test_classic_captures_of_both_byte_orders_and_both_ticks(order, nano):
    made, capture = packets(build.pcap([(T + i, d) for i, d in enumerate(DATA)], order=order, nano=nano, link=101))
    tick = 1 if nano else 1000
    assert [p.t_ns for p in made] == [(T + i) // tick * tick for i in range(3)]
    assert [p.data for p in made] == list(DATA) and capture.tick_ns == tick and not capture.broken
    assert {p.link for p in made} == {101}


@pytest.mark.parametrize("order", ["<", ">"])
def test_next_generation_captures_with_several_sections_interfaces_and_clocks(order):
    other = "<" if order == ">" else ">"
    content = (
        build.section(order)
        + build.interface(order)  # microseconds
        + build.interface(order, link=113, resolution=9, offset=1000)
        + build.interface(order, link=0, resolution=0x80 | 20)
        + build.block(order, 0xA, struct.pack(order + "II", 0x544C534B, 4) + b"KEYS")
        + build.enhanced(DATA[0], 5_000_001, order)
        + build.enhanced(DATA[1], 77, order, number=1)
        + build.enhanced(DATA[2], 3 << 19, order, number=2)
        + build.enhanced(b"nobody's", 1, order, number=3)
        + build.block(order, 5, bytes(12))  # statistics
        + build.enhanced(b"old", 6_000_000, order, kind=2)
        + build.section(other)
        + build.interface(other, link=101)
        + build.enhanced(b"again", 7_000_000, other)
    )
    made, capture = packets(content)
    assert [(p.t_ns, p.link, p.data) for p in made] == [
        (5_000_001_000, 1, DATA[0]),
        (1_000_000_000_077, 113, DATA[1]),
        (1_500_000_000, 0, DATA[2]),
        (6_000_000_000, 1, b"old"),
        (7_000_000_000, 101, b"again"),
    ]
    assert capture.secrets == [b"KEYS"] and not capture.broken


@pytest.mark.parametrize("content", [build.pcap([(T, d) for d in DATA]),
                                     build.section() + build.interface() + build.enhanced(b"abc", 1)])  # fmt: skip
def test_a_cut_keeps_what_was_before_it_and_says_so(content):
    whole, _ = packets(content)
    for size in range(12, len(content)):
        made, capture = packets(content[:size])
        assert made == whole[: len(made)] and len(made) <= len(whole)
        assert bool(capture.broken) != _on_a_border(content, size)


def _on_a_border(content, size):
    """Nothing is broken where a packet or block ends."""
    at = 0
    if content[:4] == b"\x0a\x0d\x0d\x0a":
        while at < size:
            at += struct.unpack_from("<I", content, at + 4)[0]
        return at == size
    at = 24
    while at < size:
        at += 16 + struct.unpack_from("<I", content, at + 8)[0]
    return at == size


def test_sizes_that_no_packet_has_end_the_reading():
    made, capture = packets(build.pcap([(T, b"ok")]) + struct.pack("<IIII", 1, 1, 0x7FFFFFFF, 1))
    assert len(made) == 1 and "damaged" in capture.broken
    made, capture = packets(build.section() + build.interface() + struct.pack("<III", 6, 13, 0))
    assert not made and "damaged" in capture.broken


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (build.pcap([(T, b"x" * 60)], link=147), "link type 147"),
        (build.pcap([]), "no streamed answer"),
        (build.pcap([])[:10], "cut inside its header"),
        (build.pcap([(T, build.datagram(443))] * 3), "no streamed answer (3 packets"),
        (build.pcap([(T, build.packet(build.CLIENT, 1, b"binary \0 talk"))]), "no streamed answer"),
    ],
)
def test_captures_without_an_answer_are_refused_in_one_line(content, word):
    with pytest.raises(InputError) as refused:
        read(io.BytesIO(content))
    assert word in refused.value.message and "\n" not in refused.value.message and refused.value.hint


def test_other_files_are_no_capture():
    with pytest.raises(FormatError):
        packets(b"0.1\n0.2\n0.3\n")


def test_http3_is_named_and_other_datagrams_are_not():
    for port, named in ((443, True), (53, False)):
        with pytest.raises(InputError) as refused:
            read(io.BytesIO(build.pcap([(T, build.datagram(port)), (T, build.datagram(port, six=True))])))
        assert ("HTTP/3" in refused.value.hint) == named
