"""TLS record framing: bytes to records, readable or not, with the time of the segment that completed each."""

from __future__ import annotations

from typing import Final, NamedTuple

CHANGE_CIPHER_SPEC: Final = 20
ALERT: Final = 21
HANDSHAKE: Final = 22
APPLICATION: Final = 23

_HEADER: Final = 5
_LONGEST: Final = (1 << 14) + 2048


class Record(NamedTuple):
    """One record.

    Attributes
    ----------
    kind : CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE or APPLICATION.
    header : its five bytes.
    body : what follows; None where part of it was not captured.
    size : bytes of the body.
    after_loss : records before it may be missing.
    """

    kind: int
    header: bytes
    body: bytes | None
    size: int
    after_loss: bool


def looks_like_record(data: bytes) -> bool:
    """Whether `data` begins with the header of a TLS record."""
    return (
        len(data) >= _HEADER
        and CHANGE_CIPHER_SPEC <= data[0] <= APPLICATION
        and data[1] == 3
        and data[2] <= 4
        and 0 < int.from_bytes(data[3:5], "big") <= _LONGEST
    )


class Records:
    """Cuts the bytes of one direction into records; memory is bounded by one record and one piece of input."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._damaged = 0  # up to here the buffer holds bytes that were not captured
        self._lost = False

    def feed(self, data: bytes, lost: int = 0) -> list[Record]:
        """The records that `data` completes; `lost` bytes before it were not captured."""
        if lost:
            self._skip(lost)
        if not self._data and not looks_like_record(data) and (self._lost or len(data) >= _HEADER):
            self._lost = True  # in the middle of a record; the next one that begins a segment is as good
            return []
        self._data += data
        made: list[Record] = []
        at = 0
        while len(self._data) - at >= _HEADER:
            header = bytes(self._data[at : at + _HEADER])
            if not looks_like_record(header):
                self._lost = True
                at = len(self._data)
                break
            size = int.from_bytes(header[3:], "big")
            end = at + _HEADER + size
            if len(self._data) < end:
                break
            body = None if at < self._damaged else bytes(self._data[at + _HEADER : end])
            made.append(Record(header[0], header, body, size, self._lost))
            self._lost = False
            at = end
        del self._data[:at]
        self._damaged = max(0, self._damaged - at)
        return made

    def _skip(self, lost: int) -> None:
        """Bytes are missing: inside a record they are filled up, anything else begins again."""
        held = len(self._data)
        wanted = _HEADER + int.from_bytes(self._data[3:5], "big") - held if held >= _HEADER else 0
        if lost <= wanted:
            self._data += bytes(lost)
            self._damaged = len(self._data)
        else:
            self._data.clear()
            self._damaged = 0
            self._lost = True
