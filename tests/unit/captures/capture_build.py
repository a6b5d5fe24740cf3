"""Packets and captures, built by hand."""

import itertools
import struct

CLIENT = (b"\x0a\0\0\1", 50000)
SERVER = (b"\x0a\0\0\2", 8000)
SYN, ACK, FIN, RST = 2, 16, 1, 4
IP6_CLIENT = (b"\xfe\x80" + bytes(13) + b"\1", 50000)
IP6_SERVER = (b"\xfe\x80" + bytes(13) + b"\2", 8000)
OTHERS = {SERVER: CLIENT, CLIENT: SERVER, IP6_CLIENT: IP6_SERVER, IP6_SERVER: IP6_CLIENT}


def tcp(source, seq, data=b"", *, ack=None, flags=0, target=None):
    target = target or OTHERS[source]
    flags |= 0 if ack is None else ACK
    head = struct.pack(">HHIIBBHHH", source[1], target[1], seq & 0xFFFFFFFF, ack or 0, 0x50, flags, 65535, 0, 0)
    return head + data


def ip(source, payload, *, target=None, protocol=6, length=None, fragment=0x4000):
    target = target or OTHERS[source]
    if len(source[0]) == 16:
        return struct.pack(">IHBB", 0x60000000, len(payload), protocol, 64) + source[0] + target[0] + payload
    length = 20 + len(payload) if length is None else length
    return struct.pack(">BBHHHBBH", 0x45, 0, length, 0, fragment, 64, protocol, 0) + source[0] + target[0] + payload


def ethernet(payload, *, kind=None, tags=b""):
    kind = kind or (0x86DD if payload[0] >> 4 == 6 else 0x0800)
    return bytes(12) + tags + kind.to_bytes(2, "big") + payload


def packet(source, seq, data=b"", **rest):
    return ethernet(ip(source, tcp(source, seq, data, **rest), target=rest.get("target")))


def datagram(port, *, six=False):
    source = IP6_CLIENT if six else CLIENT
    return ethernet(ip(source, struct.pack(">HHHH", 50000, port, 108, 0) + bytes(100), protocol=17))


def pcap(packets, *, order="<", nano=False, link=1, snaplen=None):
    """(nanoseconds, bytes) pairs to a classic capture."""
    tick = 1 if nano else 1000
    out = [struct.pack(order + "IHHiIII", 0xA1B23C4D if nano else 0xA1B2C3D4, 2, 4, 0, 0, 262144, link)]
    for t_ns, data in packets:
        seconds, rest = divmod(t_ns, 10**9)
        kept = data[:snaplen]
        out.append(struct.pack(order + "IIII", seconds, rest // tick, len(kept), len(data)) + kept)
    return b"".join(out)


def block(order, kind, body):
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", 12 + len(body))
    return struct.pack(order + "I", kind) + size + body + size


def section(order="<"):
    return block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))


def option(order, code, value):
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def interface(order="<", *, link=1, resolution=None, offset=None):
    options = b""
    if resolution is not None:
        options += option(order, 9, bytes([resolution]))
    if offset is not None:
        options += option(order, 14, struct.pack(order + "q", offset))
    return block(order, 1, struct.pack(order + "HHI", link, 0, 0) + options + bytes(4))


def enhanced(data, ticks, order="<", *, number=0, kind=6):
    first = struct.pack(order + "HH", number, 0) if kind == 2 else struct.pack(order + "I", number)
    return block(order, kind, first + struct.pack(order + "IIII", ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data))
                 + data + bytes(-len(data) % 4))  # fmt: skip


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(index, ids=1):
    return (
        b'data: {"object":"chat.completion.chunk","choices":'
        b'[{"index":0,"delta":{"content":"w%d"},"token_ids":[%s]}]}\n\n' % (index, b",".join([b"1"] * ids))
    )


REQUEST = b'POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-length: 14\r\n\r\n{"model":"mm"}'
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Talk:
    """One connection whose packets are collected with their times."""

    def __init__(self, client=CLIENT, server=SERVER, t_ns=1_700_000_000 * 10**9, begin=1000):
        self.sides = {"client": (client, server, begin), "server": (server, client, begin + 7)}
        self.packets = []
        self.t_ns = t_ns

    def say(self, who, data=b"", *, flags=0, after_ms=0.0, captured=True, ack=True):
        source, target, seq = self.sides[who]
        other = self.sides["server" if who == "client" else "client"]
        self.t_ns += round(after_ms * 1e6)
        if captured:
            one = tcp(source, seq, data, ack=other[2] if ack else None, flags=flags, target=target)
            self.packets.append((self.t_ns, ethernet(ip(source, one, target=target))))
        self.sides[who] = (source, target, (seq + len(data) + bool(flags & SYN) + bool(flags & FIN)) & 0xFFFFFFFF)

    def open(self):
        self.say("client", flags=SYN, ack=False)
        self.say("server", flags=SYN)
        self.say("client")
        return self

    def answer(self, events=10, *, lost=(), step_ms=20.0, request=REQUEST):
        self.say("client", request)
        self.say("server", HEAD, after_ms=1)
        for index in range(events):
            self.say("server", chunk(event(index, 1 + index % 3)), after_ms=step_ms, captured=index not in lost)
            self.say("client")
        self.say("server", chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
        return self

    def close(self):
        self.say("client", flags=FIN)
        self.say("server", flags=FIN)
        return self


def interleaved(*talks):
    """Packets of several connections in order of time."""
    return sorted(itertools.chain.from_iterable(t.packets for t in talks), key=lambda p: p[0])
