"""API keys: from the environment only, to the right host only, and out of everything that is shown or kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlsplit

from ...errors import UsageError
from .address import Address

HOSTS: Final = {
    "api.openai.com": "OPENAI_API_KEY",
    "api.anthropic.com": "ANTHROPIC_API_KEY",
    "openrouter.ai": "OPENROUTER_API_KEY",
    "api.mistral.ai": "MISTRAL_API_KEY",
    "api.deepseek.com": "DEEPSEEK_API_KEY",
    "api.groq.com": "GROQ_API_KEY",
    "api.together.xyz": "TOGETHER_API_KEY",
    "api.together.ai": "TOGETHER_API_KEY",
    "api.fireworks.ai": "FIREWORKS_API_KEY",
    "api.cerebras.ai": "CEREBRAS_API_KEY",
    "api.x.ai": "XAI_API_KEY",
    "integrate.api.nvidia.com": "NVIDIA_API_KEY",
    "router.huggingface.co": "HF_TOKEN",
    "generativelanguage.googleapis.com": "GEMINI_API_KEY",
    "api.cohere.com": "COHERE_API_KEY",
    "openai.azure.com": "AZURE_OPENAI_API_KEY",
}
"""Hosts (and all below them) that take money, and the variable that holds the key for each."""

HIDDEN: Final = "[key]"
"""What stands where a key stood."""

_SECRET: Final = 6
"""Length from which a key is a secret; shorter ones ("x", "none") stand in for none and occur in any text."""

_BASE_URLS: Final = ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL")


@dataclass(frozen=True, slots=True, repr=False)
class Key:
    """A key and the variable it came from. It has no repr, so that no traceback or log can show it.

    Attributes
    ----------
    variable : name of the environment variable, or "" where there is no key.
    note : what the user should know, e.g. why a key was not sent; "" if nothing.
    """

    value: str = ""
    variable: str = ""
    note: str = ""

    def headers(self, style: str, address: Address) -> dict[str, str]:
        """Request headers that carry the key; `style` is "bearer" or "x-api-key"."""
        if not self.value:
            return {}
        if below(address.host, "openai.azure.com"):
            return {"api-key": self.value}
        return {"x-api-key": self.value} if style == "x-api-key" else {"authorization": f"Bearer {self.value}"}


def below(host: str, domain: str) -> bool:
    """Whether `host` is `domain` or one of its subdomains."""
    return host == domain or host.endswith(f".{domain}")


def hosted(address: Address) -> str | None:
    """The variable for the key of a provider at `address`; None where no known one is."""
    return next((variable for domain, variable in HOSTS.items() if below(address.host, domain)), None)


def locked(address: Address) -> str:
    """What to do about a server that wants a key."""
    known = hosted(address)
    return f"export {known}=..." if known else "name the environment variable that holds one with --key-env NAME"


def pick(
    address: Address,
    customary: str | None,
    environment: Mapping[str, str],
    *,
    named: str | None = None,
    over_http: bool = False,
) -> Key:
    """The key for `address`.

    Parameters
    ----------
    customary : the variable of the dialect, for servers on this machine and those that a *_BASE_URL names.
    named : the variable that the user named, for any host.
    over_http : whether it may travel unencrypted to another machine.

    Raises
    ------
    UsageError : the named variable is empty, the key cannot be one, or it would travel unencrypted.
    """
    variable = named or _variable(address, customary, environment)
    value = (environment.get(variable) or "").strip() if variable else ""
    if not value:
        if named:
            raise UsageError(f"the environment variable {named} is not set", f"export {named}=...")
        return Key()
    if not re.fullmatch(r"[\x21-\x7e]+", value):
        # not shown: the HTTP library would print it in its own complaint
        raise UsageError(f"the value of {variable} cannot be a key", "it holds a blank, a line break or non-ASCII text")
    if address.scheme == "http" and not address.loopback and not over_http:
        if named:
            raise UsageError(
                f"{variable} would travel unencrypted to {address.host}", "use https, or allow it with --key-over-http"
            )
        return Key(note=f"{variable} is not sent unencrypted to {address.host}; --key-over-http allows it")
    return Key(value, variable or "")


def _variable(address: Address, customary: str | None, environment: Mapping[str, str]) -> str | None:
    if variable := hosted(address):
        return variable
    named = (urlsplit(environment.get(name) or "").hostname for name in _BASE_URLS)
    return customary if address.loopback or address.host in named else None


class Secrets:
    """Strings that must not be shown, and the way to hide them."""

    def __init__(self, values: Iterable[str]) -> None:
        long = [value for value in values if len(value) >= _SECRET]
        forms = {form for value in long for form in (value, quote(value, safe=""), json.dumps(value)[1:-1])}
        self._forms = sorted(forms, key=len, reverse=True)

    def hide(self, text: str) -> str:
        """`text` without the secrets.

        >>> Secrets(["sk-12345"]).hide("wrong key: sk-12345")
        'wrong key: [key]'
        """
        for form in self._forms:
            text = text.replace(form, HIDDEN)
        return text

    def hide_bytes(self, data: bytes) -> bytes:
        """The same for bytes of a file."""
        for form in self._forms:
            data = data.replace(form.encode(), HIDDEN.encode())
        return data
