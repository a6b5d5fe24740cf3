"""Content-encodings undone while the bytes arrive; nothing waits for the end of the body."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final, Protocol

import brotli
import zstandard

from .broken import BrokenError
from .limits import RATIO_FLOOR, Limits, too_much

_OUT: Final = 1 << 20  # bytes that one step may give
_ZSTD_IN: Final = 256  # zstandard has no such bound, but so few bytes give 11 MB at most
_ZSTD_WINDOW: Final = 1 << 27


class _Codec(Protocol):
    def feed(self, data: bytes) -> Iterator[bytes]: ...


class Decoder:
    """Encoded bytes in, plain pieces out, for a content-encoding header such as `gzip` or `gzip, br`.

    Raises
    ------
    BrokenError : an encoding that is not known (at once), or bytes that are not in it.
    LimitError : more plain bytes than the limits allow.
    """

    def __init__(self, content_encoding: str, limits: Limits) -> None:
        names = [name.strip().lower() for name in content_encoding.split(",")]
        self._codecs = [_codec(name) for name in reversed(names) if name not in ("", "identity")]
        self._limits = limits
        self._taken = self._given = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The plain bytes that `data` gives, in pieces."""
        if not self._codecs:
            yield data
            return
        self._taken += len(data)
        pieces: Iterator[bytes] = iter((data,))
        for codec in self._codecs:
            pieces = self._each(codec, pieces)
        yield from pieces

    def _each(self, codec: _Codec, pieces: Iterator[bytes]) -> Iterator[bytes]:
        try:
            for piece in pieces:
                for plain in codec.feed(piece):
                    self._count(len(plain))
                    yield plain
        except (zlib.error, brotli.error, zstandard.ZstdError):
            raise BrokenError("the body is not in the encoding that its header names") from None

    def _count(self, size: int) -> None:
        self._given += size
        if self._given > self._limits.decoded_bytes:
            raise too_much("the decompressed body", self._limits.decoded_bytes)
        if self._given > max(RATIO_FLOOR, self._taken * self._limits.decoded_ratio):
            raise too_much("the ratio of decompression", self._limits.decoded_ratio)


def _codec(name: str) -> _Codec:
    if name in ("gzip", "x-gzip"):
        return _Zlib(31)
    if name == "deflate":
        return _Zlib(0)
    if name == "br":
        return _Brotli()
    if name == "zstd":
        return _Zstd()
    raise BrokenError("the content-encoding of the body is not known")


class _Zlib:
    """gzip and deflate. Some servers send deflate without its zlib header; its first byte tells."""

    def __init__(self, wbits: int) -> None:
        self._wbits = wbits
        self._inner: zlib._Decompress | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._inner is None:
                zlib_header = data[0] & 15 == 8 and data[0] >> 4 <= 7
                self._inner = zlib.decompressobj(self._wbits or (15 if zlib_header else -15))
            if self._inner.eof and not self._wbits:
                return  # bytes behind the end
            plain = self._inner.decompress(data, _OUT)
            yield plain
            data = self._inner.unconsumed_tail
            while not data and len(plain) == _OUT:  # what did not fit, although all was read
                plain = self._inner.decompress(b"", _OUT)
                yield plain
            if self._inner.eof and self._wbits:  # a further member may follow
                data = self._inner.unused_data
                self._inner = None


class _Brotli:
    def __init__(self) -> None:
        self._inner = brotli.Decompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        yield self._inner.process(data, output_buffer_limit=_OUT)
        while not self._inner.can_accept_more_data():
            yield self._inner.process(b"", output_buffer_limit=_OUT)


class _Zstd:
    def __init__(self) -> None:
        self._new = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj
        self._inner = self._new()

    def feed(self, data: bytes) -> Iterator[bytes]:
        for at in range(0, len(data), _ZSTD_IN):
            piece = data[at : at + _ZSTD_IN]
            while piece:
                if self._inner.eof:
                    self._inner = self._new()
                yield self._inner.decompress(piece)
                piece = self._inner.unused_data
