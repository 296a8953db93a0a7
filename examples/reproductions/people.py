"""Made-up people as registers have them: records with errors, and whose they are, at any size.

    python examples/reproductions/people.py 1000000 people.jsonl people.parquet --seed 0
    kbforge cluster people.jsonl -o people.kb.jsonl && kbforge evaluate people.kb.jsonl people.jsonl

Outputs end in .jsonl (fragments), .csv or .parquet (a column of ids, one of labels, one of each
attribute); all have the same records. Every number is a hash of the seed, the name of a draw and
the number of a person, a home or a record, so a record needs no other one: memory is that of one
chunk, records are in random order, and the same seed writes the same bytes.

As in FEBRL's generator (Christen 2005), people have between 1 and 12 records by a power law, and
names, streets and suburbs are frequent by one (Zipf-Mandelbrot). Records have slips of the pen,
nicknames, given name and surname swapped, day and month swapped, and gaps. One person in five
shares surname, address and landline with another; some have moved, or changed their surname.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson

Numbers: TypeAlias = npt.NDArray[np.int64]
Texts: TypeAlias = npt.NDArray[np.object_]
Chunk: TypeAlias = dict[str, list[Any]]  # id, label and attributes, in the order of COLUMNS
Writer: TypeAlias = Callable[[Chunk], None]

ATTRIBUTES = ("given_name", "surname", "born", "street", "suburb", "postcode", "phone")
COLUMNS = ("id", "label", *ATTRIBUTES)
CHUNK = 20_000

MOST_RECORDS, SIZE_LAW = 12, 1.5  # a share of size**-SIZE_LAW of the people has so many records
GIVEN, SURNAMES, STREETS, SUBURBS = 3_000, 80_000, 20_000, 3_000
# a word of rank r has a share of nearly 1 / (r + offset): 2.9 % and 1.1 % for the first names
OFFSETS = {"given_name": 5.0, "surname": 10.0, "street": 50.0, "suburb": 20.0}
SHARED_HOMES, MOVED, NEW_SURNAME, NEW_YEAR = 0.2, 0.25, 0.04, 0.02
NICKNAME, SWAPPED_NAMES, SWAPPED_DATE, LANDLINE = 0.08, 0.015, 0.02, 0.4
SLIPS = {
    "given_name": 0.06, "surname": 0.07, "born": 0.04, "street": 0.08, "suburb": 0.05,
    "postcode": 0.04, "phone": 0.03,
}  # fmt: skip
GAPS = {
    "given_name": 0.02, "surname": 0.02, "born": 0.08, "street": 0.08, "suburb": 0.05,
    "postcode": 0.07, "phone": 0.35,
}  # fmt: skip
BEGINS = (*"bcdfghjklmnprstvw", "br", "ch", "gr", "kl", "sh", "st", "tr")
VOWELS = (*"aaaeeiioouy", "ea", "ou")
ENDS = ("", "", "", *"nrslm", "nd", "tt", "ck", "ll", "rs")
KINDS = ("street", "road", "avenue", "lane", "close", "drive", "place")
LETTERS, DIGITS = "abcdefghijklmnopqrstuvwxyz", "0123456789"
DAYS = [date(1925, 1, 1) + timedelta(days=day) for day in range(80 * 365)]


class Vocabulary(NamedTuple):
    """The words of a seed, the frequent ones first."""

    given_names: Texts
    nicknames: Texts  # of the given name of the same rank
    surnames: Texts
    streets: Texts
    suburbs: Texts
    born: Texts  # ISO dates
    pairs: Texts  # "0000" to "9999"
    houses: Texts  # "1 " to "200 "


class Draws:
    """Numbers in [0, 1) by seed, name and number: splitmix64 (Steele, Lea and Flood 2014)."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __call__(self, name: str, numbers: Numbers) -> npt.NDArray[np.float64]:
        """One for each number, shape [n]."""
        key = hashlib.blake2b(f"{self._seed} {name}".encode(), digest_size=8).digest()
        x = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x += np.uint64(int.from_bytes(key, "little"))
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            x ^= x >> np.uint64(shift)
            x *= np.uint64(factor)
        x ^= x >> np.uint64(31)
        return (x >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, most: int, name: str, numbers: Numbers) -> Numbers:
        """Whole numbers, all equally frequent."""
        return (self(name, numbers) * most).astype(np.int64)

    def rank(self, most: int, offset: float, name: str, numbers: Numbers) -> Numbers:
        """Ranks from 0, r in proportion to 1 / (r + offset)."""
        return (offset * ((most + offset) / offset) ** self(name, numbers) - offset).astype(
            np.int64
        )


def main() -> None:
    """Write the files that are named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("records", type=int, help="how many")
    parser.add_argument("outputs", nargs="+", metavar="FILE", help=".jsonl, .csv or .parquet")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    write(given.records, [Path(name) for name in given.outputs], given.seed)


def write(records: int, outputs: list[Path], seed: int = 0) -> None:
    """Write the same records to every file, in the format that its name ends with."""
    with ExitStack() as stack:
        writers = [stack.enter_context(WRITERS[path.suffix](path)) for path in outputs]
        for chunk in people(records, seed):
            for writer in writers:
                writer(chunk)


def people(records: int, seed: int = 0) -> Iterator[Chunk]:
    """The columns of so many records, chunk by chunk; None is a gap."""
    draws, words, law = Draws(seed), vocabulary(seed), sizes(records)
    for begin in range(0, records, CHUNK):
        numbers = np.arange(begin, min(begin + CHUNK, records))
        whose = owners(shuffled(numbers, records, draws), law)
        columns = slips(values(whose, numbers, draws, words), numbers, draws)
        ids = [f"r{number}" for number in numbers.tolist()]
        labels = [f"p{person}" for person in whose.tolist()]
        yield {"id": ids, "label": labels} | columns


def sizes(records: int) -> Numbers:
    """How many people have 1, 2, ... MOST_RECORDS records; shape [MOST_RECORDS]."""
    size = np.arange(1, MOST_RECORDS + 1)
    share = size**-SIZE_LAW
    law: Numbers = (records * share / (share * size).sum()).astype(np.int64)
    law[0] += records - (law * size).sum()
    return law


def owners(places: Numbers, law: Numbers) -> Numbers:
    """The person of each place, where people lie in a row by their number of records."""
    size = np.arange(1, len(law) + 1)
    begins = np.concatenate([[0], np.cumsum(law * size)])[:-1]
    kind = np.searchsorted(begins, places, side="right") - 1
    first = np.concatenate([[0], np.cumsum(law)])[kind]
    return np.asarray(first + (places - begins[kind]) // size[kind])


def shuffled(numbers: Numbers, records: int, draws: Draws) -> Numbers:
    """The place of each number in a random order: a Feistel network, walked until in range."""
    half = max(1, (max(records - 1, 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1

    def once(x: Numbers) -> Numbers:
        left, right = x >> half, x & mask
        for turn in range(4):
            left, right = right, left ^ draws.below(1 << half, f"order {turn}", right)
        return left << half | right

    out = once(numbers)
    while len(outside := np.flatnonzero(out >= records)):
        out[outside] = once(out[outside])
    return out


def values(whose: Numbers, numbers: Numbers, draws: Draws, words: Vocabulary) -> dict[str, Texts]:
    """What each record would say without slips and gaps."""

    def often(share: float, name: str, of: Numbers = numbers) -> npt.NDArray[np.bool_]:
        return draws(name, of) < share

    def rank(most: int, name: str, of: Numbers) -> Numbers:
        return draws.rank(most, OFFSETS[name], name, of)

    couple = whose >> 1
    home = np.where(often(SHARED_HOMES, "home", couple), couple << 1, whose)
    changed = often(NEW_SURNAME, "changes", whose) & often(0.5, "changed")
    moved = often(MOVED, "moves", whose) & often(0.5, "moved")
    # homes and people after a change have numbers of their own
    family = np.where(changed, whose << 1 | 1, home << 1)
    address = np.where(moved, whose << 1 | 1, home << 1)
    name = rank(GIVEN, "given_name", whose)
    given = np.where(often(NICKNAME, "nickname"), words.nicknames[name], words.given_names[name])
    surname = words.surnames[rank(SURNAMES, "surname", family)]
    swapped = often(SWAPPED_NAMES, "swapped")
    street, suburb = rank(STREETS, "street", address), rank(SUBURBS, "suburb", address)
    day = draws.below(len(DAYS), "born", whose)
    day = np.where(often(NEW_YEAR, "new year", whose), day // 365 * 365, day)
    line = np.where(often(LANDLINE, "line"), address << 1, whose << 1 | 1)
    area = np.where(line & 1, 400 + draws.below(100, "mobile", line), 200 + suburb % 60)
    # a suburb has some codes, a street one of them
    code = 10_000 + 7 * suburb + street % 7
    return {
        "given_name": np.where(swapped, surname, given),
        "surname": np.where(swapped, given, surname),
        "born": words.born[day],
        "street": words.houses[draws.below(200, "house", address)] + words.streets[street],
        "suburb": words.suburbs[suburb],
        "postcode": code.astype("U5").astype(object),
        "phone": words.pairs[area]
        + words.pairs[draws.below(10_000, "phone 1", line)]
        + words.pairs[draws.below(10_000, "phone 2", line)],
    }


def slips(columns: dict[str, Texts], numbers: Numbers, draws: Draws) -> Chunk:
    """The columns with the errors of writing, and None for what is missing."""
    born = columns["born"]
    for at in np.flatnonzero(draws("date", numbers) < SWAPPED_DATE).tolist():
        year, month, day = born[at].split("-")
        born[at] = f"{year}-{day}-{month}"
    for name, column in columns.items():
        slipped = np.flatnonzero(draws(f"slip {name}", numbers) < SLIPS[name])
        where, how, what = (
            draws(f"slip {name} {part}", numbers[slipped]).tolist() for part in range(3)
        )
        for at, *chances in zip(slipped.tolist(), where, how, what, strict=True):
            column[at] = slip(column[at], *chances)
        column[draws(f"gap {name}", numbers) < GAPS[name]] = None
    # nobody is left without a name
    out: Chunk = {name: column.tolist() for name, column in columns.items()}
    for row, (given, surname) in enumerate(zip(out["given_name"], out["surname"], strict=True)):
        if given is None and surname is None:
            out["surname"][row] = "unknown"
    return out


def slip(text: str, where: float, how: float, what: float) -> str:
    """The text with one character wrong: replaced, left out, put in or in its neighbour's place."""
    at = int(where * len(text))
    kind = LETTERS if text[at].isalpha() else DIGITS
    character = kind[int(what * len(kind))]
    if how < 0.4 or text[at] in "- ":
        return text[:at] + character + text[at + 1 :]
    if how < 0.6:
        return text[:at] + text[at + 1 :]
    if how < 0.75:
        return text[:at] + character + text[at:]
    return text[:at] + text[at + 1 : at + 2] + text[at] + text[at + 2 :]


def vocabulary(seed: int) -> Vocabulary:
    """The words of a seed."""
    rng = Random(f"words {seed}")
    given = invented(rng, GIVEN, (2, 3))
    short = invented(rng, GIVEN, (1, 2))
    cut = [
        name[:4] if rng.random() < 0.5 else other for name, other in zip(given, short, strict=True)
    ]
    streets = [f"{word} {rng.choice(KINDS)}" for word in invented(rng, STREETS, (2, 3))]
    return Vocabulary(
        *(
            np.array(texts, dtype=object)
            for texts in (
                given,
                cut,
                invented(rng, SURNAMES, (2, 3)),
                streets,
                invented(rng, SUBURBS, (2, 4)),
                [day.isoformat() for day in DAYS],
                [f"{number:04}" for number in range(10_000)],
                [f"{number} " for number in range(1, 201)],
            )
        )
    )


def invented(rng: Random, count: int, syllables: tuple[int, int]) -> list[str]:
    """Different words of so many syllables, from the fewest to the most."""
    words: dict[str, None] = {}
    while len(words) < count:
        parts = range(rng.randint(*syllables))
        words[
            "".join(rng.choice(BEGINS) + rng.choice(VOWELS) for _ in parts) + rng.choice(ENDS)
        ] = None
    return list(words)


@contextmanager
def json_lines(path: Path) -> Iterator[Writer]:
    """Fragments with labels."""
    with path.open("wb") as file:

        def write_chunk(chunk: Chunk) -> None:
            lines = []
            for number, label, *row in zip(*chunk.values(), strict=True):
                said = {name: [v] for name, v in zip(ATTRIBUTES, row, strict=True) if v is not None}
                line = {"id": number, "properties": said, "label": label}
                lines.append(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
            file.write(b"".join(lines))

        yield write_chunk


@contextmanager
def table(path: Path) -> Iterator[Writer]:
    """CSV, an empty cell for a gap."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        yield lambda chunk: writer.writerows(zip(*chunk.values(), strict=True))


@contextmanager
def parquet(path: Path) -> Iterator[Writer]:
    """Parquet, with null for a gap; needs pyarrow."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    schema = pa.schema([(name, pa.string()) for name in COLUMNS])
    with ParquetWriter(path, schema) as file:
        yield lambda chunk: file.write_table(pa.table(chunk, schema=schema))


WRITERS: dict[str, Callable[[Path], AbstractContextManager[Writer]]] = {
    ".jsonl": json_lines,
    ".csv": table,
    ".parquet": parquet,
}

if __name__ == "__main__":
    main()
