"""Text that means nothing: pieces of words, one for each token, the same for the same seed."""

from __future__ import annotations

from typing import Final

from ..decoder import Dice

_CONSONANTS: Final = "bdfgklmnprstvz"
_VOWELS: Final = "aeiou"

PIECES: Final = (
    *(f" {c}{v}{end}" for c in _CONSONANTS for v in _VOWELS for end in ("", "n", "r", "l", "sh", "nt")),
    *(f"{c}{v}" for c in _CONSONANTS for v in _VOWELS),
)
"""The vocabulary; a token's id is its place. The first 420 begin a word, the other 70 go on with one."""


def write(tokens: int, dice: Dice) -> list[int]:
    """Ids of `tokens` tokens."""
    ids: list[int] = dice["words"].integers(len(PIECES), size=tokens).tolist()
    return ids
