"""HTTP to a server that may be slow, hostile or gone: bounded bodies, bounded time, one line for every failure."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from ...errors import ConnectionFailed, SpecsonarError
from .address import Address
from .find import Peek
from .keys import Secrets, locked

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

MOST_BYTES: Final = 4 << 20
"""Of an answer to a GET, or of a refusal."""

PLAIN: Final = {"accept-encoding": "identity", "user-agent": "specsonar"}
"""Headers of every request. Compression holds back what has arrived, and the delay would be taken for the decoder's."""

_SHOWN: Final = 200


class Refused(ConnectionFailed):
    """The server answered with a status that is no success.

    Attributes
    ----------
    status : HTTP status.
    complaint : the body as text, as far as it was read.
    retry_after : seconds after which the server wants to be asked again, or None.
    """

    def __init__(self, message: str, hint: str, status: int, complaint: str, retry_after: float | None) -> None:
        super().__init__(message, hint)
        self.status = status
        self.complaint = complaint
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Line:
    """A way to one service.

    Attributes
    ----------
    client : an open `httpx2.Client`. It follows no redirect: a key must not travel to another host.
    headers : with the key.
    timeout : seconds of silence that are borne.
    """

    client: httpx2.Client
    address: Address
    headers: Mapping[str, str]
    secrets: Secrets
    timeout: float

    def get(self, url: str) -> Peek:
        """The answer to a GET; see `find.Get`. The value is None where the body is no JSON, or too long."""
        status, data = self._get(url)
        try:
            return Peek(status, msgspec.json.decode(self.secrets.hide_bytes(data)))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return Peek(status)

    def text(self, url: str) -> str | None:
        """What a GET brings, or None where it brings nothing of use."""
        try:
            status, data = self._get(url)
        except ConnectionFailed:
            return None
        return data.decode(errors="replace") if status == 200 and data else None

    def _get(self, url: str) -> tuple[int, bytes]:
        def fetch() -> tuple[int, bytes]:
            with self.opened("GET", url) as response:
                return response.status_code, limited(response)

        return within(self.timeout, fetch, self.silent)

    @contextmanager
    def opened(self, method: str, url: str, body: bytes | None = None) -> Iterator[httpx2.Response]:
        """A response whose body is not read yet. Whatever goes wrong in the block becomes a ConnectionFailed."""
        import httpx2

        headers = dict(self.headers)
        if body is not None:
            headers["content-type"] = "application/json"
        try:
            with self.client.stream(method, url, content=body, headers=headers) as response:
                if 300 <= response.status_code < 400:
                    raise self._redirected(response)
                if response.status_code == 407:
                    raise self.told(httpx2.ProxyError("it wants a name and a password"))
                yield response
        except SpecsonarError:
            raise
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError) as error:
            # "from None": what the HTTP library has to say may quote the request
            raise self.told(error) from None

    def told(self, error: Exception) -> ConnectionFailed:
        """One line for an error of the HTTP library."""
        import httpx2

        host = self.address.origin
        text = self.shown(str(error))
        match error:
            case httpx2.ProxyError():
                return ConnectionFailed(f"the proxy refuses: {text}", "check --proxy, or HTTPS_PROXY and NO_PROXY")
            case httpx2.ConnectTimeout():
                return ConnectionFailed(f"no connection to {host} within {self.timeout:g} s", "check host and port")
            case httpx2.ConnectError():
                if _caused_by(error, ssl.SSLError):
                    hint = "name its authority with SSL_CERT_FILE=FILE; certificates are always checked"
                    return ConnectionFailed(f"TLS with {host} fails: {text}", hint)
                return ConnectionFailed(f"cannot reach {host}: {text}", "check host and port, and that it runs")
            case httpx2.TimeoutException():
                return self.silent()
            case httpx2.RemoteProtocolError() if "peer closed" not in text and "disconnected" not in text:
                return ConnectionFailed(f"{host} breaks the rules of HTTP: {text}", "is it an HTTP server?")
            case _:
                return ConnectionFailed(f"{host} broke off: {text}", "look at the server's log")

    def silent(self) -> ConnectionFailed:
        """The error for a server that says nothing."""
        return ConnectionFailed(
            f"{self.address.origin} said nothing for {self.timeout:g} s", "is it loading? wait longer with --timeout"
        )

    def refused(self, response: httpx2.Response) -> Refused:
        """The error for a response that is no success; reads its body."""
        status = response.status_code
        complaint = self.secrets.hide(limited(response).decode(errors="replace"))
        told = self.shown(_message(complaint))
        text = f"{self.address.origin} answers HTTP {status}" + (f": {told}" if told else "")
        wait = _retry_after(response.headers.get("retry-after"))
        match status:
            case 401 | 403:
                hint = locked(self.address)
            case 404 | 405:
                hint = "check the URL, --dialect and --model"
            case _ if wait is not None:
                hint = f"it wants to be asked again in {wait:.0f} s"
            case 429:
                hint = "ask less, or later"
            case _:
                hint = "look at the server's log" if status >= 500 else "check --model and the URL"
        return Refused(text, hint, status, complaint, wait)

    def shown(self, text: str) -> str:
        """Foreign text on one line, short and without the key."""
        return shown(text, self.secrets)

    def _redirected(self, response: httpx2.Response) -> ConnectionFailed:
        target = self.shown(response.headers.get("location", "nowhere").partition("?")[0])
        return ConnectionFailed(
            f"{self.address.origin} redirects to {target}", "redirects are not followed; give that URL"
        )


def shown(text: str, secrets: Secrets) -> str:
    """Foreign text on one line, short and without the key."""
    line = " ".join("".join(c if c.isprintable() else " " for c in secrets.hide(text)).split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."


def within(seconds: float, what: Callable[[], T], late: Callable[[], Exception]) -> T:
    """What `what()` gives or raises; after `seconds` it is left to itself and `late()` is raised.

    The timeouts of an HTTP client are for single reads: a server that sends a byte now and then passes them all.
    """
    done: list[T] = []
    failed: list[Exception] = []

    def run() -> None:
        try:
            done.append(what())
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if failed:
        raise failed[0]
    if not done:
        raise late()
    return done[0]


def limited(response: httpx2.Response) -> bytes:
    """The raw body of `response`, at most `MOST_BYTES` of it; nothing of a body that is packed without being asked."""
    if response.headers.get("content-encoding", "identity") not in ("identity", ""):
        return b""
    body = bytearray()
    for part in response.iter_raw():
        body += part
        if len(body) > MOST_BYTES:
            break
    return bytes(body[:MOST_BYTES])


def _message(complaint: str) -> str:
    """The words in the body of a refusal."""
    try:
        value: Any = msgspec.json.decode(complaint)
    except (msgspec.DecodeError, RecursionError):
        return complaint
    for name in ("error", "message", "detail", "msg"):
        if isinstance(value, Mapping) and value.get(name):
            value = value[name]
    return value if isinstance(value, str) else complaint


def _retry_after(value: str | None) -> float | None:
    """Seconds to wait, from a number or a date; None where it is neither."""
    if value is None:
        return None
    if value.strip().isascii() and value.strip().isdigit():
        return float(value[:12])
    try:
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None


def _caused_by(error: BaseException | None, kind: type[BaseException]) -> bool:
    while error is not None:
        if isinstance(error, kind):
            return True
        error = error.__cause__ or error.__context__
    return False
