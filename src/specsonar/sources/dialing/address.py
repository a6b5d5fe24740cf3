"""The address of a service as the user gives it, checked before anything is sent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from ...errors import UsageError
from ..listening import is_loopback

_KEY_FIELD: Final = re.compile(r"(?i)^(api[-_]?key|key|token|access[-_]token|auth|secret|sig)$")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(frozen=True, slots=True)
class Address:
    """Parts of a URL. `path` has no slash at its end, `query` no question mark."""

    scheme: str
    host: str
    port: int | None
    path: str
    query: str = ""

    @property
    def origin(self) -> str:
        """Scheme, host and port, as an URL without a path."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + (f":{self.port}" if self.port is not None else "")

    @property
    def loopback(self) -> bool:
        """Whether it is this machine."""
        return is_loopback(self.host)

    def at(self, path: str) -> str:
        """The URL of `path` on this server, with the query of the address."""
        return f"{self.origin}{path}" + (f"?{self.query}" if self.query else "")


def parse(text: str) -> Address:
    """The address in `text`; `http` is added for this machine and `https` for any other when no scheme is given.

    Raises
    ------
    UsageError : no usable URL, or one that holds a key.
    """
    try:
        parts = urlsplit(text if _SCHEME.match(text) else f"//{text}")
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        raise UsageError("this is no URL that could be asked", _EXAMPLE) from None
    if parts.username is not None or parts.password is not None:
        raise UsageError("the URL holds a name or a password", _FROM_ENVIRONMENT)
    if any(_KEY_FIELD.match(name) for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        raise UsageError("the query of the URL holds a key", _FROM_ENVIRONMENT)
    if not host or re.search(r"[^\w.:%-]", host) or re.search(r"[\s\x00-\x1f]", text):
        raise UsageError("this is no URL that could be asked", _EXAMPLE)
    scheme = parts.scheme.lower() or ("http" if is_loopback(host) else "https")
    if scheme not in ("http", "https"):
        raise UsageError(f"cannot ask over {scheme}", "give an http or https URL")
    return Address(scheme, host, port, parts.path.rstrip("/"), parts.query)


_EXAMPLE: Final = "give for example http://localhost:8000 or https://host/v1/chat/completions"
_FROM_ENVIRONMENT: Final = "keys come from the environment only; name the variable with --key-env"
