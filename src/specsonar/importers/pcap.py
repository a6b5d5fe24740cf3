"""Packet captures (pcap, pcapng): HTTP of any version and WebSocket, in the clear or with a TLS key log.

Keys come from inside a pcapng, from a file beside the capture (`NAME.keys`, `NAME.keylog`), or from the file that the
environment variable SSLKEYLOGFILE names. Without them, times and sizes of the encrypted records are left.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Final

from ..bytefile import ByteFile
from ..errors import FormatError
from ..findings import finding
from ..fingerprint import Finding
from ..trace import Trace
from ..wire.answer import Answer
from ..wire.flow import Flow, sender
from ..wire.packet import is_quic, known_link, segment
from ..wire.tcp import Flows
from ..wire.tlsdecrypt import KeyLog
from .answers import LATEST, add_answers, note_all, say_sizes_only
from .gather import Gathered
from .pcapfile import PCAP, PCAPNG, Capture
from .refusals import refuse_gaps

NAME: Final = "packet capture"
LOOKS: Final = "binary; pcap or pcapng, as tcpdump, Wireshark and dumpcap write them"

_LARGEST_KEY_LOG: Final = 16 << 20


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1."""
    return 1.0 if head[:4] in PCAP or head[:4] == PCAPNG else 0.0


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read the answers of all connections. An event's time is that of the segment that completed it.

    Raises
    ------
    UsageError : `gaps` was asked for. FormatError : the capture holds no streamed answer.
    InputError : a key log fits, and the package that decrypts is not installed.
    """
    refuse_gaps(gaps)
    return _Reading(source).trace()


class _Reading:
    def __init__(self, source: ByteFile) -> None:
        self._source = source
        self._keys = KeyLog()
        self._capture = Capture(source)
        self._gathered = Gathered(source)
        self._links: set[int] = set()
        self._packets = self._cut_short = self._quic = 0
        self._http = self._tls = self._holes = self._lost = self._sizes = 0

    def trace(self) -> Trace:
        """All of it."""
        for path in _key_logs(self._source.path):
            with open(path, "rb") as log:
                self._keys.add(log.read(_LARGEST_KEY_LOG))
        flows = Flows(lambda client, server: Flow(self._keys, self._harvest, self._ended), sender)
        for t_ns, link, data, length in self._capture.packets():
            while self._capture.secrets:
                self._keys.add(self._capture.secrets.pop())
            self._packets += 1
            self._cut_short += len(data) < length
            if not known_link(link):
                self._links.add(link)
            elif (part := segment(link, data, length)) is not None and abs(t_ns) < LATEST:
                flows.segment(t_ns, part)
            else:
                self._quic += is_quic(link, data)
        flows.finish()
        say_sizes_only(self._gathered, self._sizes, "since the connection is encrypted and its keys are not known")
        if not self._gathered.streams:
            raise self._nothing()
        self._notice()
        return self._gathered.trace()

    def _harvest(self, answers: list[Answer], noticed: list[Finding], headless: Answer | None) -> None:
        add_answers(self._gathered, answers, self._capture.tick_ns, headless)
        note_all(self._gathered, noticed)

    def _ended(self, flow: Flow) -> None:
        self._http += flow.is_http
        self._tls += flow.is_tls
        if flow.is_http:
            self._holes += flow.cut
            self._lost += flow.lost if flow.cut else 0
        for one in flow.sizes():
            self._sizes += 1
            self._gathered.add(replace(one, name=self._gathered.name(), resolution_ns=self._capture.tick_ns))
        if flow.refused:
            note_all(self._gathered, [finding("I008", f"{self._source.name}: {flow.refused}")])

    def _notice(self) -> None:
        name, found = self._source.name, self._gathered.findings
        if self._capture.broken:
            found.append(finding("I001", f"{name} is {self._capture.broken}"))
        if self._holes:
            found.append(
                finding(
                    "I019",
                    f"{name}: {self._lost:,} bytes were not captured; answers broke off there {self._holes} times"
                    + (f"; {self._cut_short:,} packets were captured in part" if self._cut_short else ""),
                )
            )

    def _nothing(self) -> FormatError:
        """Why the capture has no stream, as far as it can be told."""
        name = self._source.name
        if self._capture.broken and not self._packets:
            return FormatError(f"{name} is {self._capture.broken}", "copy or capture it again")
        if self._links and not self._http and not self._tls:
            kinds = ", ".join(map(str, sorted(self._links)[:5]))
            return FormatError(f"{name} has link type {kinds}, which is not known", "capture on Ethernet or loopback")
        seen = f"{self._packets:,} packets, {self._http} HTTP and {self._tls} TLS connections"
        hint = "capture the client's whole connection, from before the request on"
        if self._cut_short:
            hint = f"{self._cut_short:,} packets were captured in part: capture whole ones (`tcpdump -s 0`)"
        elif self._quic > self._packets // 2:
            hint = "most of it is HTTP/3, which cannot be read: switch that off in the client, and capture again"
        elif self._tls:
            hint = "give the key log: `SSLKEYLOGFILE=keys.log CLIENT`, then name it like the capture with .keys added"
        return FormatError(f"{name} holds no streamed answer ({seen})", hint)


def _key_logs(path: str | None) -> list[str]:
    """Key logs that belong to the capture at `path`."""
    named = [os.environ.get("SSLKEYLOGFILE", "")]
    if path is not None:
        named += [base + ending for base in (path, os.path.splitext(path)[0]) for ending in (".keys", ".keylog")]
    return [one for one in dict.fromkeys(named) if one and os.path.isfile(one)]
