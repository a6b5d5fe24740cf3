"""A captured packet to its TCP segment: link layer off, IP and TCP read by dpkt."""

from __future__ import annotations

from typing import Final, NamedTuple

import dpkt

FIN: Final = 0x01
SYN: Final = 0x02
RST: Final = 0x04
ACK: Final = 0x10

_TCP: Final = 6
_UDP: Final = 17
_FRAGMENT: Final = 0x3F  # of the byte with IP's flags: more of them come, or this is no first one
_HTTPS: Final = (443).to_bytes(2, "big")
_IP4: Final = 0x0800
_IP6: Final = 0x86DD
_VLAN: Final = (0x8100, 0x88A8, 0x9100)

ETHERNET: Final = 1
# Bytes before the IP header. Linux "any" captures carry a protocol field like Ethernet's; the others begin at once.
_COOKED: Final = {113: (16, 14), 276: (20, 0)}
_BARE: Final = {0: 4, 108: 4, 12: 0, 14: 0, 101: 0, 228: 0, 229: 0}


class Segment(NamedTuple):
    """One TCP segment.

    Attributes
    ----------
    source, target : address and port, as bytes.
    seq, ack : sequence numbers; `ack` is None without the ACK flag.
    flags : FIN, SYN, RST, ACK.
    data : captured payload.
    missing : payload bytes at its end that were sent but not captured (snapshot length).
    """

    source: bytes
    target: bytes
    seq: int
    ack: int | None
    flags: int
    data: bytes
    missing: int


def known_link(link: int) -> bool:
    """Whether packets of this link type can be read."""
    return link == ETHERNET or link in _COOKED or link in _BARE


def segment(link: int, packet: bytes, length: int) -> Segment | None:
    """The TCP segment in a packet of `length` bytes, of which `packet` was captured; None when there is none."""
    start = _ip_start(link, packet)
    if start is None or len(packet) < start + 40:
        return None
    version = packet[start] >> 4
    try:
        if version == 4:
            if packet[start + 9] != _TCP or packet[start + 6] & _FRAGMENT or packet[start + 7]:
                return None  # fragments, which TCP avoids, among them
            ip = dpkt.ip.IP(packet[start:])
            whole = ip.len - 4 * (packet[start] & 15)
        elif version == 6:
            ip = dpkt.ip6.IP6(packet[start:])
            whole = ip.plen - sum(extension.length for extension in ip.all_extension_headers)
        else:
            return None
    except (dpkt.UnpackError, ValueError, IndexError, AttributeError, TypeError):
        return None  # dpkt trusts lengths inside damaged headers
    tcp = ip.data
    if not isinstance(tcp, dpkt.tcp.TCP):
        return None
    if whole <= 0:  # the network card splits it later: no length yet
        whole = length - start - 4 * (ip.hl if version == 4 else 10)
    flags = tcp.flags
    return Segment(
        ip.src + tcp.sport.to_bytes(2, "big"),
        ip.dst + tcp.dport.to_bytes(2, "big"),
        tcp.seq,
        tcp.ack if flags & ACK else None,
        flags,
        tcp.data,
        max(0, min(whole - 4 * tcp.off - len(tcp.data), length - len(packet))),
    )


def is_quic(link: int, packet: bytes) -> bool:
    """Whether a packet looks like HTTP/3: a datagram to or from port 443."""
    start = _ip_start(link, packet)
    if start is None or len(packet) < start + 48:
        return False
    if packet[start] >> 4 == 4:
        kind, ports = packet[start + 9], start + 4 * (packet[start] & 15)
    else:
        kind, ports = packet[start + 6], start + 40
    return kind == _UDP and _HTTPS in (packet[ports : ports + 2], packet[ports + 2 : ports + 4])


def _ip_start(link: int, packet: bytes) -> int | None:
    if link == ETHERNET:
        size, at = 14, 12
    elif link in _COOKED:
        size, at = _COOKED[link]
    else:
        return _BARE.get(link)
    kind = int.from_bytes(packet[at : at + 2], "big")
    for _ in range(2):
        if kind not in _VLAN:
            break
        kind = int.from_bytes(packet[size + 2 : size + 4], "big")
        size += 4
    return size if kind in (_IP4, _IP6) else None
