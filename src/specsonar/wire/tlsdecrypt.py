"""Decrypts the TLS records of a captured connection with the secrets of a key log (TLS 1.3, and 1.2 with AEAD).

Only what the key log names can be read: this is the format that browsers, curl and Python write for SSLKEYLOGFILE.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ..errors import InputError
from .tcp import CLIENT, SERVER
from .tlsrecords import APPLICATION, CHANGE_CIPHER_SPEC, HANDSHAKE, Record

_LINE: Final = re.compile(rb"([A-Z0-9_]{8,40}) ([0-9a-fA-F]{64}) ([0-9a-fA-F]{64,128})\s*$")
_MOST_SECRETS: Final = 50_000
_HELLO_LIMIT: Final = 1 << 16
_TRIES: Final = 64  # records that may be missing in a hole

_CLIENT_HELLO: Final = 1
_SERVER_HELLO: Final = 2
_FINISHED: Final = 20
_KEY_UPDATE: Final = 24
_VERSIONS: Final = 43
_RETRY: Final = hashlib.sha256(b"HelloRetryRequest").digest()  # the random of a hello that asks for another one
_TLS13: Final = 0x0304


class _Suite(NamedTuple):
    key: int
    hash: str
    chacha: bool = False


_AES128: Final = _Suite(16, "sha256")
_AES256: Final = _Suite(32, "sha384")
_CHACHA: Final = _Suite(32, "sha256", True)
_SUITES: Final = {
    0x1301: _AES128, 0x1302: _AES256, 0x1303: _CHACHA,
    **dict.fromkeys((0x009C, 0x009E, 0xC02B, 0xC02F), _AES128),
    **dict.fromkeys((0x009D, 0x009F, 0xC02C, 0xC030), _AES256),
    **dict.fromkeys((0xCCA8, 0xCCA9, 0xCCAA), _CHACHA),
}  # fmt: skip


class KeyLog:
    """Secrets by client random and label."""

    def __init__(self) -> None:
        self._secrets: dict[bytes, dict[str, bytes]] = {}

    def __len__(self) -> int:
        return len(self._secrets)

    def add(self, text: bytes) -> None:
        """Take the lines of a key log; what is no such line is passed over."""
        for line in text.splitlines():
            if (found := _LINE.match(line)) and len(self._secrets) < _MOST_SECRETS:
                random, secret = bytes.fromhex(found[2].decode()), bytes.fromhex(found[3].decode())
                self._secrets.setdefault(random, {})[found[1].decode()] = secret

    def of(self, random: bytes) -> dict[str, bytes]:
        """The secrets of one connection; empty when there are none."""
        return self._secrets.get(random, {})


class _Cipher:
    """One direction under one key."""

    def __init__(self, suite: _Suite, key: bytes, iv: bytes, tls13: bool) -> None:
        self._aead: Any = _aead(suite)(key)
        self._iv, self._tls13, self._explicit = iv, tls13, not tls13 and not suite.chacha
        self.seq = 0

    def open(self, record: Record, body: bytes) -> tuple[int, bytes] | None:
        """Content type and text, or None when the key or the number does not fit."""
        for skipped in range(_TRIES if record.after_loss else 1):
            if (text := self._try(record, body, self.seq + skipped)) is not None:
                self.seq += skipped + 1
                return text
        return None

    def _try(self, record: Record, body: bytes, seq: int) -> tuple[int, bytes] | None:
        from cryptography.exceptions import InvalidTag

        number = seq.to_bytes(8, "big")
        if self._explicit:
            nonce, sealed = self._iv + body[:8], body[8:]
        else:
            padded = bytes(len(self._iv) - 8) + number
            nonce, sealed = bytes(a ^ b for a, b in zip(self._iv, padded, strict=True)), body
        if len(sealed) < 16:
            return None
        extra = record.header if self._tls13 else number + record.header[:3] + (len(sealed) - 16).to_bytes(2, "big")
        try:
            text = self._aead.decrypt(nonce, sealed, extra)
        except InvalidTag:
            return None
        if not self._tls13:
            return record.kind, text
        text = text.rstrip(b"\0")  # padding, then one byte of content type
        return (text[-1], text[:-1]) if text else None


@dataclass(slots=True)
class _Direction:
    cipher: _Cipher | None = None
    secret: bytes = b""
    protected: bool = False
    messages: bytearray = field(default_factory=bytearray)


class Session:
    """One connection: both hellos are read in the clear, then records are opened where their keys are known.

    Attributes
    ----------
    keyed : the key log has the secrets of this connection (known once both hellos were seen).
    tls13 : the version is 1.3 (known likewise).
    """

    def __init__(self, keys: KeyLog) -> None:
        self._keys = keys
        self._sides = (_Direction(), _Direction())
        self._random = b""
        self._secrets: dict[str, bytes] = {}
        self._suite: _Suite | None = None
        self._agreed = False
        self.keyed = False
        self.tls13 = False

    def record(self, side: int, record: Record) -> bytes:
        """Application bytes in the next record of one side; empty where there are none or they cannot be read.

        Raises
        ------
        InputError : the key log has the keys, and the package that decrypts is not installed.
        """
        mine = self._sides[side]
        if record.kind == CHANGE_CIPHER_SPEC:
            if self._agreed and not self.tls13:  # in 1.3 it means nothing, and comes before the hellos are over
                mine.protected = True
                mine.cipher = self._cipher12(side) if self.keyed else None
            return b""
        if record.body is None:
            if mine.cipher is not None and record.kind in (APPLICATION, HANDSHAKE):
                mine.cipher.seq += 1
            return b""
        if record.kind == HANDSHAKE and not mine.protected:
            self._messages(side, record.body)
            return b""
        if mine.cipher is None:
            return b""
        opened = mine.cipher.open(record, record.body)
        if opened is None:
            return b""
        kind, text = opened
        if kind == HANDSHAKE:
            self._messages(side, text)
        return text if kind == APPLICATION else b""

    def _messages(self, side: int, data: bytes) -> None:
        held = self._sides[side].messages
        held += data
        while len(held) >= 4:
            end = 4 + int.from_bytes(held[1:4], "big")
            if end > _HELLO_LIMIT:
                held.clear()
                return
            if len(held) < end:
                return
            kind, body = held[0], bytes(held[4:end])
            del held[:end]
            self._message(side, kind, body)

    def _message(self, side: int, kind: int, body: bytes) -> None:
        if kind == _CLIENT_HELLO and side == CLIENT:
            self._random = body[2:34]
        elif kind == _SERVER_HELLO and side == SERVER and body[2:34] != _RETRY:
            self._server_hello(body)
        elif kind == _FINISHED and self.tls13 and self.keyed:
            self._use(side, "TRAFFIC_SECRET_0")
        elif kind == _KEY_UPDATE and self.tls13 and self._suite is not None:
            mine = self._sides[side]
            mine.secret = _expand(self._suite.hash, mine.secret, b"traffic upd", len(mine.secret))
            mine.cipher = self._cipher13(mine.secret)

    def _server_hello(self, body: bytes) -> None:
        self._agreed = True
        session = body[34] if len(body) > 34 else 0
        at = 35 + session
        self._suite = _SUITES.get(int.from_bytes(body[at : at + 2], "big"))
        self.tls13 = _extension(body[at + 3 :], _VERSIONS) == _TLS13
        self._secrets = self._keys.of(self._random)
        self.keyed = bool(self._secrets) and self._suite is not None
        if not self.keyed:
            return
        if self.tls13:
            for side in (CLIENT, SERVER):
                self._use(side, "HANDSHAKE_TRAFFIC_SECRET")
        elif (master := self._secrets.get("CLIENT_RANDOM")) is not None:
            self._secrets = {"master": master, "seed": body[2:34] + self._random}
        else:
            self.keyed = False

    def _use(self, side: int, label: str) -> None:
        """The next keys of one side. Without its handshake secret the first record that opens will tell."""
        mine = self._sides[side]
        prefix = "CLIENT_" if side == CLIENT else "SERVER_"
        secret = self._secrets.get(prefix + label) or self._secrets.get(prefix + "TRAFFIC_SECRET_0")
        if secret is not None:
            mine.secret, mine.cipher = secret, self._cipher13(secret)
        mine.protected = True

    def _cipher13(self, secret: bytes) -> _Cipher:
        assert self._suite is not None
        key = _expand(self._suite.hash, secret, b"key", self._suite.key)
        return _Cipher(self._suite, key, _expand(self._suite.hash, secret, b"iv", 12), True)

    def _cipher12(self, side: int) -> _Cipher:
        assert self._suite is not None
        size, iv = self._suite.key, 12 if self._suite.chacha else 4
        block = _prf(
            self._suite.hash, self._secrets["master"], b"key expansion" + self._secrets["seed"], 2 * (size + iv)
        )
        key = block[side * size : (side + 1) * size]
        start = 2 * size + side * iv
        return _Cipher(self._suite, key, block[start : start + iv], False)


def _extension(data: bytes, wanted: int) -> int | None:
    """The value of a two-byte extension of a hello, from its list of extensions."""
    at, end = 2, 2 + int.from_bytes(data[:2], "big")
    while at + 4 <= min(end, len(data)):
        kind, size = int.from_bytes(data[at : at + 2], "big"), int.from_bytes(data[at + 2 : at + 4], "big")
        if kind == wanted:
            return int.from_bytes(data[at + 4 : at + 4 + size], "big")
        at += 4 + size
    return None


def _aead(suite: _Suite) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
    except ImportError:
        raise InputError(
            "decrypting TLS needs the package cryptography", "pip install 'specsonar[tls]', or read without the key log"
        ) from None
    return ChaCha20Poly1305 if suite.chacha else AESGCM


def _expand(name: str, secret: bytes, label: bytes, size: int) -> bytes:
    """HKDF-Expand-Label of RFC 8446 with an empty context."""
    label = b"tls13 " + label
    info = size.to_bytes(2, "big") + bytes([len(label)]) + label + b"\0"
    out, block = b"", b""
    for number in range(1, -(-size // hashlib.new(name).digest_size) + 1):
        block = hmac.digest(secret, block + info + bytes([number]), name)
        out += block
    return out[:size]


def _prf(name: str, secret: bytes, seed: bytes, size: int) -> bytes:
    """The pseudo-random function of RFC 5246."""
    out, mark = b"", seed
    while len(out) < size:
        mark = hmac.digest(secret, mark, name)
        out += hmac.digest(secret, mark + seed, name)
    return out[:size]
