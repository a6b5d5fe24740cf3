import struct

import capture_build as build
import pytest

from specsonar.wire.packet import known_link, segment

IP = build.ip(build.SERVER, build.tcp(build.SERVER, 77, b"hello", ack=5))
IP6 = build.ip(build.IP6_SERVER, build.tcp(build.IP6_SERVER, 77, b"hello", ack=5))
VLAN = b"\x81\x00\x00\x05"
OUTER = b"\x88\xa8\x00\x07"


@pytest.mark.parametrize(
    ("link", "data"),
    [
        (1, build.ethernet(IP)),
        (1, build.ethernet(IP6)),
        (1, build.ethernet(IP, tags=VLAN)),
        (1, build.ethernet(IP, tags=OUTER + VLAN)),
        (1, build.ethernet(IP) + bytes(6)),  # padded to the least size of Ethernet
        (0, struct.pack("<I", 2) + IP),
        (0, struct.pack("<I", 30) + IP6),
        (108, struct.pack(">I", 2) + IP),
        (101, IP),
        (101, IP6),
        (113, bytes(14) + b"\x08\x00" + IP),
        (113, bytes(14) + b"\x81\x00\x00\x05\x08\x00" + IP),
        (276, b"\x86\xdd" + bytes(18) + IP6),
    ],
)
def test_each_link_layer_gives_the_segment(link, data):
    assert known_link(link)
    one = segment(link, data, len(data))
    assert (one.seq, one.ack, one.flags, one.data, one.missing) == (77, 5, build.ACK, b"hello", 0)
    assert one.source[-2:] == (8000).to_bytes(2, "big") and one.target[-2:] == (50000).to_bytes(2, "big")
    assert len(one.source) in (6, 18)


def test_what_a_short_snapshot_left_out_is_counted():
    whole = build.packet(build.SERVER, 1, b"0123456789")
    one = segment(1, whole[:-4], len(whole))
    assert one.data == b"012345" and one.missing == 4
    assert segment(1, whole[:50], len(whole)) is None  # not even the TCP header


def test_a_segment_that_the_network_card_will_split_has_no_length_yet():
    data = build.ethernet(build.ip(build.SERVER, build.tcp(build.SERVER, 1, b"x" * 100), length=0))
    assert len(segment(1, data, len(data)).data) == 100
    assert segment(1, data[:-30], len(data)).missing == 30


@pytest.mark.parametrize(
    "data",
    [
        build.ethernet(build.ip(build.SERVER, bytes(30), protocol=17)),
        build.ethernet(build.ip(build.SERVER, build.tcp(build.SERVER, 1, b"x" * 20), fragment=0x2000)),
        build.ethernet(build.ip(build.SERVER, build.tcp(build.SERVER, 1, b"x" * 20), fragment=0x0010)),
        build.ethernet(bytes(60), kind=0x0806),
        b"",
    ],
)
def test_anything_else_gives_nothing(data):
    assert segment(1, data, len(data)) is None


def test_no_damage_to_a_packet_raises():
    for whole, link in ((build.ethernet(IP), 1), (build.ethernet(IP6), 1), (bytes(14) + b"\x08\x00" + IP, 113)):
        for place in range(len(whole)):
            for value in (0, 1, 0x3C, 0x7F, 0xFF, whole[place] ^ 0x10):
                data = whole[:place] + bytes([value]) + whole[place + 1 :]
                segment(link, data, len(data))
            segment(link, whole[:place], len(whole))
