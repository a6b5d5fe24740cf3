"""Containers of captured packets: pcap and pcapng to packets with integer nanoseconds.

dpkt's own readers give times as floats (a quarter of a microsecond today), know one interface, no secrets, and trust
every length; so the two containers are read here, and dpkt reads the packets.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from ..bytefile import ByteFile
from ..errors import FormatError

PCAP: Final = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000), b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1), b"\xa1\xb2\x3c\x4d": (">", 1),
}  # fmt: skip
"""Magic number to byte order and nanoseconds of a tick."""

PCAPNG: Final = b"\x0a\x0d\x0d\x0a"

_LONGEST: Final = 1 << 24
_SECTION: Final = 0x0A0D0D0A
_INTERFACE: Final = 1
_OLD_PACKET: Final = 2
_PACKET: Final = 6
_SECRETS: Final = 10
_TLS_KEY_LOG: Final = 0x544C534B
_MOST_INTERFACES: Final = 10_000


class Packet(NamedTuple):
    """One packet: time, link type, the bytes captured of it, and how long it was."""

    t_ns: int
    link: int
    data: bytes
    length: int


class Capture:
    """The packets of one file, read once.

    Attributes
    ----------
    secrets : TLS key logs inside the file, so far.
    tick_ns : the coarsest tick of the clocks, so far.
    broken : why reading ended early, or "".
    """

    def __init__(self, source: ByteFile) -> None:
        self.secrets: list[bytes] = []
        self.tick_ns = 1
        self.broken = ""
        self._name = source.name
        self._pieces = source.pieces()
        self._data = b""
        self._at = 0

    def packets(self) -> Iterator[Packet]:
        """All packets in order of the file.

        Raises
        ------
        FormatError : it is no capture. InputError, LimitError : see `ByteFile`.
        """
        if self._have(4) and self._data[self._at : self._at + 4] in PCAP:
            return self._pcap()
        if self._have(12) and self._data[self._at : self._at + 4] == PCAPNG:
            return self._pcapng()
        raise FormatError(f"{self._name} is no pcap file", "")

    def _have(self, size: int) -> bool:
        """Whether `size` bytes can be read from here on; memory is bounded by them and one block."""
        while len(self._data) - self._at < size:
            block = next(self._pieces, b"")
            if not block:
                return False
            self._data = self._data[self._at :] + block
            self._at = 0
        return True

    def _pcap(self) -> Iterator[Packet]:
        order, tick = PCAP[self._data[self._at : self._at + 4]]
        if not self._have(24):
            self.broken = "cut inside its header"
            return
        self.tick_ns = tick
        link = int(struct.unpack_from(order + "I", self._data, self._at + 20)[0]) & 0xFFFF
        head = struct.Struct(order + "4I")
        self._at += 24
        while self._have(16):
            seconds, ticks, captured, length = head.unpack_from(self._data, self._at)
            if captured > _LONGEST:
                self.broken = f"damaged: a packet of {captured:,} bytes"
                return
            if not self._have(16 + captured):
                self.broken = "cut inside a packet"
                return
            begin = self._at + 16
            self._at = begin + captured
            yield Packet(seconds * 1_000_000_000 + ticks * tick, link, self._data[begin : self._at], length)
        if len(self._data) > self._at:
            self.broken = "cut inside a packet"

    def _pcapng(self) -> Iterator[Packet]:
        order = "<"
        interfaces: list[_Interface] = []
        while self._have(12):
            kind, size = struct.unpack_from(order + "II", self._data, self._at)
            if kind == _SECTION:
                if self._data[self._at + 8 : self._at + 12] not in (b"\x4d\x3c\x2b\x1a", b"\x1a\x2b\x3c\x4d"):
                    self.broken = "damaged: a section without a byte order"
                    return
                order = "<" if self._data[self._at + 8] == 0x4D else ">"
                size = int(struct.unpack_from(order + "I", self._data, self._at + 4)[0])
                interfaces = []
            if size < 12 or size % 4 or size > _LONGEST:
                self.broken = f"damaged: a block of {size:,} bytes"
                return
            if not self._have(size):
                break
            body = self._data[self._at + 8 : self._at + size - 4]
            self._at += size
            if kind in (_PACKET, _OLD_PACKET):
                if (packet := _packet(order, body, interfaces, old=kind == _OLD_PACKET)) is not None:
                    yield packet
            elif kind == _INTERFACE and len(body) >= 8 and len(interfaces) < _MOST_INTERFACES:
                interfaces.append(_interface(order, body))
                self.tick_ns = max(self.tick_ns, interfaces[-1].tick_ns)
            elif kind == _SECRETS and len(body) >= 8:
                what, length = struct.unpack_from(order + "II", body)
                if what == _TLS_KEY_LOG:
                    self.secrets.append(body[8 : 8 + length])
        if len(self._data) > self._at:
            self.broken = "cut inside a block"


class _Interface(NamedTuple):
    link: int
    per_second: int
    offset_ns: int

    @property
    def tick_ns(self) -> int:
        return max(1, 1_000_000_000 // self.per_second)


def _interface(order: str, body: bytes) -> _Interface:
    link = struct.unpack_from(order + "H", body)[0]
    per_second, offset = 1_000_000, 0
    at = 8
    while at + 4 <= len(body):
        code, size = struct.unpack_from(order + "HH", body, at)
        value = body[at + 4 : at + 4 + size]
        at += 4 + size + -size % 4
        if code == 0:
            break
        if code == 9 and value:
            per_second = (2 if value[0] & 0x80 else 10) ** min(value[0] & 0x7F, 63)
        elif code == 14 and len(value) == 8:
            offset = struct.unpack(order + "q", value)[0]
    return _Interface(link, per_second, offset * 1_000_000_000)


def _packet(order: str, body: bytes, interfaces: list[_Interface], *, old: bool) -> Packet | None:
    if len(body) < 20:
        return None
    number, high, low, captured, length = struct.unpack_from(order + "5I", body)
    if old:  # 16 bits of interface, 16 bits of drop count
        number = struct.unpack_from(order + "H", body)[0]
    if number >= len(interfaces):
        return None
    link, per_second, offset_ns = interfaces[number]
    t_ns = ((high << 32) | low) * 1_000_000_000 // per_second + offset_ns
    return Packet(t_ns, link, body[20 : 20 + captured], length)
