"""The catalogue of findings: for each stable code what it is, why it matters, and what to do.

`specsonar explain CODE` and the documentation are made from this table. A finding is created with `finding()`,
which refuses a code that is not explained here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .fingerprint import Finding


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a code means."""

    title: str
    severity: str
    what: str
    why: str
    do: str


CATALOGUE: Final[dict[str, Explanation]] = {
    "I001": Explanation(
        "file ends early", "warning",
        "The file stops in the middle of a record. Everything before the cut was read.",
        "A recorder that was killed, or a copy that broke off, leaves such a file. Nothing before the cut is damaged.",
        "Nothing, if the part that is there is long enough; otherwise record again.",
    ),
    "I002": Explanation(
        "time unit guessed", "info",
        "The file does not say its time unit, so it was guessed from the size of a typical gap.",
        "A wrong unit scales the step time by a thousand; acceptance and draft length do not depend on it.",
        "Name the unit with `--unit s|ms|us|ns`.",
    ),
    "I003": Explanation(
        "times out of order", "warning",
        "Some events carry an earlier time than the event before them.",
        "Tokens cannot be taken back: the clock was set, or events of several sources were mixed. "
        "The times were sorted, so small reorderings do no harm.",
        "Stamp with a monotonic clock, one stream per file or per stream column.",
    ),
    "I004": Explanation(
        "lines skipped", "warning",
        "Some lines could not be read and were left out.",
        "Missing events look like longer gaps and merged steps.",
        "Look at the first line that is named; repair or remove it.",
    ),
    "I005": Explanation(
        "counts and total disagree", "info",
        "The token counts of the events do not add up to the total that the server gives.",
        "A server may count tokens past the limit that it cut off, or may count steps instead of tokens. "
        "The counts of the events were used.",
        "Nothing, when the difference is a few tokens; otherwise ask which of the two the server means.",
    ),
    "I006": Explanation(
        "total not trusted", "warning",
        "The server's total equals the number of events, and this engine is known to count steps there.",
        "With speculation on, such a total is too small, and one token per event would be read out of it. "
        "It was not used.",
        "Ask for token ids, log-probabilities or usage per event, where the server can give them.",
    ),
    "I007": Explanation(
        "the server reported an error", "warning",
        "The recording holds an error message of the server, or an HTTP status of 400 or more.",
        "The answer may have ended early.",
        "Read the message; record again when the server is well.",
    ),
}  # fmt: skip


def finding(code: str, message: str, hint: str = "", severity: str | None = None) -> Finding:
    """A Finding of the catalogue; severity and hint default to the catalogue's.

    Raises
    ------
    KeyError : the code has no explanation. That is a defect of the caller, not of the data.
    """
    entry = CATALOGUE[code]
    return Finding(code, severity or entry.severity, message, hint or entry.do)
