"""Prompts that a draft model finds hard or easy: prose, code, JSON, and the repetition of a text.

Two answers to one prompt at temperature 0 are the same answer, so every prompt of a run has a subject of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from ...errors import InputError, UsageError

_SUBJECTS: Final = (
    ("a lighthouse keeper who finds a message in a bottle", "lighthouse", "a queue of ships that wait for a pilot"),
    ("a night train that crosses a mountain range in winter", "train", "the timetable of a small railway"),
    ("two gardeners who disagree about a hedge", "garden", "the beds and plants of a garden"),
    ("a clockmaker whose best clock begins to run backwards", "workshop", "the repairs of a workshop"),
    ("a cook who has to feed forty guests with half a pantry", "kitchen", "recipes and what a pantry holds"),
    ("a librarian who reads the notes left in returned books", "library", "loans and returns of a library"),
    ("a ferry captain on the last day before the bridge opens", "ferry", "the bookings of a ferry"),
    ("a beekeeper who moves her hives at night", "apiary", "hives, visits and honey yields"),
    ("a surveyor who maps a valley that will be flooded", "survey", "points and distances of a survey"),
    ("a baker's apprentice in the week of the great frost", "bakery", "orders and ovens of a bakery"),
    ("an astronomer who shares a hut with a shepherd", "observatory", "observations of variable stars"),
    ("a postman on an island with three houses", "post office", "parcels on their way to islands"),
)
"""For each subject: a story, a place that a list can be made of, and things that a program can keep."""

_PASSAGE: Final = (
    "The old mill stands where the river bends, a little below the village. Every morning the miller opens the sluice, "
    "listens until the wheel has found its pace, and only then lights the stove. Carts come from the farms on both "
    "sides of the valley: barley in early autumn, wheat when the nights grow cold, and in a good year some rye from "
    "the high fields. He weighs each sack twice and writes the smaller number into a book with a green cover. "
    "In spring the water is brown and strong, and the stones run hot if nobody watches them. In August it can be so "
    "low that he grinds for an hour and waits for two. People say that the mill will be sold; they have said so for "
    "thirty years. The miller shrugs, oils the bearings, and counts the sacks that are still to be done before dark."
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is asked in one request, and the name of its workload."""

    workload: str
    text: str


def _prose(story: str, _place: str, _things: str) -> str:
    return f"Write a long, vivid short story about {story}. Do not use headings or lists; write at least 800 words."


def _code(_story: str, _place: str, things: str) -> str:
    return (
        f"Write a complete, well-documented Python module that manages {things}: data classes, a class with methods "
        "to add, find, change, remove and list entries, input checks, and a set of unit tests. Answer with code only."
    )


def _json(_story: str, place: str, _things: str) -> str:
    return (
        f"Answer with JSON only: an array of 25 objects that describe things one could find in a {place}. Each object "
        'has the keys "id", "name", "category", "material", "weight_kg", "year", "condition" and "tags" (three words).'
    )


def _repeat(_story: str, place: str, _things: str) -> str:
    text = _PASSAGE.replace("mill ", f"{place} ")
    return f"Repeat the following text word for word, three times in a row, without any comment:\n\n{text}"


WORKLOADS: Final = {"prose": _prose, "code": _code, "json": _json, "repeat": _repeat}
"""By name, in the order in which they are asked."""


def prompts(workloads: Sequence[str], count: int) -> list[Prompt]:
    """`count` different prompts that take turns among `workloads`.

    Raises
    ------
    UsageError : an unknown workload.
    """
    for name in workloads:
        if name not in WORKLOADS:
            raise UsageError(f"no workload is called {name!r}", f"workloads: {', '.join(WORKLOADS)}")
    made = []
    for number in range(count):
        turn, place = divmod(number, len(workloads))
        name = workloads[place]
        # neighbours differ in subject too, and the second pass over the subjects asks for another version
        text = WORKLOADS[name](*_SUBJECTS[(turn + 5 * place) % len(_SUBJECTS)])
        version = turn // len(_SUBJECTS)
        made.append(Prompt(name, f"Version {version + 1}. {text}" if version else text))
    return made


def named(workloads: Sequence[str], own: Sequence[str], count: int) -> list[tuple[str, str]]:
    """`count` questions, each a name and a text: `own` prompts in turns, or where there are none those of `workloads`.

    A name means the same text in every recording. That of a built-in prompt has a digest of it in it; of the user's
    own nothing is told but the place among them, and a digest of all.
    """
    if own:
        every = sha256("\0".join(own).encode()).hexdigest()[:12]
        return [(f"{every} {n % len(own) + 1}", own[n % len(own)]) for n in range(count)]
    return [(f"{p.workload} {sha256(p.text.encode()).hexdigest()[:8]}", p.text) for p in prompts(workloads, count)]


def from_file(path: Path) -> list[str]:
    """The prompts of a file: one a paragraph, blank lines between them.

    Raises
    ------
    InputError : the file cannot be read or holds no prompt.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror or error}", "check --prompt-file") from None
    except UnicodeDecodeError:
        raise InputError(f"{str(path)!r} is not UTF-8 text", "save the prompts as UTF-8") from None
    found = [part.strip() for part in text.replace("\r\n", "\n").split("\n\n") if part.strip()]
    if not found:
        raise InputError(f"{str(path)!r} holds no prompt", "write one prompt a paragraph")
    return found
