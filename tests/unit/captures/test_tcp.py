import capture_build as build
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specsonar.wire import tcp
from specsonar.wire.packet import Segment

CLIENT = b"\x0a\0\0\1\xc3\x50"
SERVER = b"\x0a\0\0\2\x1f\x40"


class Listener:
    """A reader that keeps what it is given."""

    def __init__(self, client, server):
        self.ends = (client, server)
        self.pieces = {tcp.CLIENT: [], tcp.SERVER: []}
        self.closed = 0

    def data(self, side, pieces):
        assert pieces
        self.pieces[side] += pieces

    def close(self, t_ns):
        self.closed += 1

    def text(self, side=tcp.SERVER):
        return b"".join(p.data for p in self.pieces[side])


class Wire:
    def __init__(self, sender=lambda data: None, **limits):
        self.heard = []
        self.flows = tcp.Flows(self._open, sender, tcp.Limits(**limits))

    def _open(self, client, server):
        self.heard.append(Listener(client, server))
        return self.heard[-1]

    def server(self, t, seq, data=b"", *, missing=0, flags=0, ack=0):
        self.flows.segment(t, Segment(SERVER, CLIENT, seq % 2**32, ack, flags | build.ACK, data, missing))

    def client(self, t, seq, data=b"", *, flags=0, ack=None):
        self.flows.segment(t, Segment(CLIENT, SERVER, seq % 2**32, ack, flags, data, 0))


@settings(max_examples=150, deadline=None)
@given(
    st.binary(min_size=1, max_size=60),
    st.lists(st.tuples(st.integers(0, 59), st.integers(1, 20), st.integers(0, 50)), max_size=25),
    st.integers(0, 2**32 - 1),
)
def test_any_order_of_any_overlapping_copies_gives_the_text_at_the_time_it_was_whole(text, copies, begin):
    wire = Wire()
    wire.server(0, begin - 1, flags=build.SYN)
    sent = sorted(((t, at, text[at : at + n]) for at, n, t in copies if at < len(text)), key=lambda c: c[0])
    sent += [(60 + i, i, text[i : i + 7]) for i in range(0, len(text), 7)]
    first = {}
    for t, at, data in sent:
        wire.server(t, begin + at, data)
        for place in range(at, at + len(data)):
            first.setdefault(place, t)
    (heard,) = wire.heard
    assert heard.text() == text
    whole, place = 0, 0
    for piece in heard.pieces[tcp.SERVER]:
        assert piece.lost == 0
        for _ in piece.data:
            whole = max(whole, first[place])
            place += 1
        assert piece.t_ns == whole  # of its last byte: everything before it is there by then
    assert len(heard.pieces[tcp.SERVER]) <= len(sent)


def test_what_the_other_side_has_and_the_capture_not_is_given_up():
    wire = Wire()
    wire.server(1, 100, b"aaa")
    for index in range(3):
        wire.server(2 + index, 113 + 3 * index, b"bbb")
    assert wire.heard[0].text() == b"aaa"
    wire.client(9, 1, ack=122)
    assert wire.heard[0].pieces[tcp.SERVER] == [
        (1, b"aaa", 0), (2, b"bbb", 10), (3, b"bbb", 0), (4, b"bbb", 0)
    ]  # fmt: skip


def test_packets_that_the_capture_swapped_are_put_right_though_they_are_acknowledged():
    wire = Wire()
    wire.server(1, 100, b"aaa")
    wire.server(2, 106, b"ccc")
    wire.client(3, 1, ack=109)
    wire.server(4, 103, b"bbb")
    assert wire.heard[0].pieces[tcp.SERVER] == [(1, b"aaa", 0), (4, b"bbbccc", 0)]


def test_a_capture_of_one_direction_gives_a_hole_up_when_too_much_waits():
    wire = Wire(segments=3)
    wire.server(1, 100, b"a")
    for index in range(5):
        wire.server(2 + index, 110 + index, b"b")
    assert wire.heard[0].text() == b"abbbbb"
    assert [p.lost for p in wire.heard[0].pieces[tcp.SERVER]] == [0, 9, 0, 0, 0, 0]


def test_the_hole_of_a_short_snapshot_is_told_with_what_comes_next():
    wire = Wire()
    wire.server(1, 100, b"aaaa", missing=6)
    wire.server(2, 110, b"bb")
    assert wire.heard[0].pieces[tcp.SERVER] == [(1, b"aaaa", 0), (2, b"bb", 6)]


def test_a_new_connection_on_the_same_ports_is_another_one_and_a_repeated_syn_is_not():
    wire = Wire()
    for begin in (100, 100, 5000):
        wire.client(1, begin, flags=build.SYN)
    wire.client(2, 5001, b"x")
    wire.client(3, 9000, flags=build.SYN)
    wire.client(4, 9001, b"y")
    assert [h.text(tcp.CLIENT) for h in wire.heard] == [b"x", b"y"] and wire.heard[0].closed == 1


def test_an_end_of_both_sides_or_a_reset_ends_it_once():
    wire = Wire()
    wire.client(1, 10, b"q", flags=build.FIN)
    wire.server(2, 100, b"a", flags=build.FIN)
    assert wire.heard[0].closed == 1
    wire.client(3, 700, b"q")
    wire.server(4, 900, b"late")
    wire.server(5, 950, b"held", flags=build.RST)
    assert wire.heard[1].closed == 1 and wire.heard[1].text() == b"lateheld"
    wire.flows.finish()
    assert [h.closed for h in wire.heard] == [1, 1]


def test_an_end_that_overtakes_the_data_before_it_waits_for_them():
    wire = Wire()
    wire.client(0, 9, b"q", flags=build.FIN)
    wire.server(1, 99, flags=build.SYN)
    wire.server(2, 105, flags=build.FIN)
    assert wire.heard[0].closed == 0
    wire.server(3, 100, b"abcde")
    assert wire.heard[0].text() == b"abcde" and wire.heard[0].closed == 1


def test_the_connection_that_was_silent_longest_makes_room():
    wire = Wire(flows=2)
    for port in (1, 2, 1, 3):
        ends = (b"\0\0\0\1\xff" + bytes([port]), b"\0\0\0\2\x1f\x40")
        wire.flows.segment(port, Segment(*ends, 10, None, 0, b"x", 0))
    assert [(h.ends[0][-1], h.closed) for h in wire.heard] == [(1, 0), (2, 1), (3, 0)]


@pytest.mark.parametrize(("told", "client"), [(None, CLIENT), (tcp.CLIENT, SERVER), (tcp.SERVER, CLIENT)])
def test_without_the_begin_the_payload_or_else_the_port_tells_the_client(told, client):
    wire = Wire(sender=lambda data: told)
    wire.server(1, 5, b"data")
    assert wire.heard[0].ends[0] == client


def test_a_packet_from_an_address_to_itself_is_passed_over():
    wire = Wire()
    wire.flows.segment(1, Segment(CLIENT, CLIENT, 1, None, 0, b"x", 0))
    assert not wire.heard


def test_all_connections_together_hold_no_more_than_the_limit():
    wire = Wire(all_held=1000)
    for port in range(50):
        ends = (b"\0\0\0\2\x1f" + bytes([port]), b"\0\0\0\1\xff\xff")
        wire.flows.segment(1, Segment(*ends, 9, None, build.SYN, b"", 0))
        wire.flows.segment(2, Segment(*ends, 110, None, 0, b"x" * 100, 0))
    assert len(wire.heard) == 40 and all(h.pieces[tcp.CLIENT][0].lost == 100 for h in wire.heard)
    wire.flows.finish()
    assert len(wire.heard) == 50
