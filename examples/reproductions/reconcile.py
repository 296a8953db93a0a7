"""A column of names reconciled against the rest: precision and recall at match, rank of the right.

    python examples/reproductions/reconcile.py FRAGMENTS [--names 1000] [--with ATTRIBUTE ...]

FRAGMENTS is a labelled file of the data, such as syriaca_persons.jsonl or chadwick_10k.jsonl.gz.
Some fragments are held out whose label others have, too; the rest is clustered into a store, which
is served. The names of those held out are the column, with further columns if asked for. The right
answer for a name is the entity that has most of the fragments of its label (of equals the first).

| measure | is |
|---|---|
| precision | of the names with a match (match: true), the share where it is the right one |
| recall | of all names, the share where the right one has match: true |
| rank | where the right one stands among the candidates, of at most 10 |
| CERTAIN x | the same at other calibrated probabilities than that from which `match` is true |

Namesakes cannot be told apart by a name alone. So ranks are given apart for names that a fragment
of the store has exactly, with the `ceiling` of these: the share for which the right one is the
entity with most fragments of that name, which is the best guess from equal names.

Results of 2026-11-24 for 1,000 names with seed 1; CERTAIN was chosen on seed 0, where chadwick has
precision .996 and recall .548. `+` is with more columns: date of birth and occupation, or floruit.

| column | matches | precision | recall | rank 1 | to 3 | to 10 |
|---|---:|---:|---:|---:|---:|---:|
| chadwick_10k | 602 | .992 | .597 | .947 | .968 | .974 |
| chadwick_10k + | 745 | .989 | .737 | .956 | .975 | .979 |
| syriaca_persons | 97 | .433 | .042 | .377 | .486 | .589 |
| syriaca_persons + | 142 | .563 | .080 | .410 | .530 | .629 |

Each person of syriaca has names in several scripts, one fragment each: 84 % of the column's names
are new to the store, and of the others only 20 % are the same person. The confidence map is too
sure of such namesakes.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from shell import table
from starlette.testclient import TestClient

from kbforge.contracts import Fragment
from kbforge.files.fragments import read_fragments
from kbforge.fit.choices import RunOptions
from kbforge.jobs.update import add_fragments
from kbforge_serve.app import application
from kbforge_serve.reconcile import BATCH, CERTAIN
from kbforge_serve.service import Service

MOST = 10
LEVELS = (0.5, 0.7, 0.8, 0.9, 0.95)


def held_out(
    fragments: list[Fragment], most: int, seed: int
) -> tuple[list[Fragment], list[Fragment]]:
    """Some named fragments that are not alone with their label, and all others."""
    order = list(fragments)
    random.Random(seed).shuffle(order)
    left = Counter(fragment.label for fragment in order)
    column, rest = [], []
    for fragment in order:
        if len(column) < most and fragment.label and fragment.names and left[fragment.label] > 1:
            column.append(fragment)
            left[fragment.label] -= 1
        else:
            rest.append(fragment)
    return column, rest


def reconciled(client: TestClient, column: list[Fragment], attributes: list[str]) -> list[Any]:
    """The candidates for each name."""
    found = []
    for begin in range(0, len(column), BATCH):
        queries = {}
        for number, fragment in enumerate(column[begin : begin + BATCH]):
            more = [
                {"pid": name, "v": list(fragment.properties[name])}
                for name in attributes
                if name in fragment.properties
            ]
            asked = {"query": fragment.names[0], "limit": MOST}
            queries[f"q{number}"] = asked | ({"properties": more} if more else {})
        answer = client.post("/reconcile", data={"queries": json.dumps(queries)})
        answer.raise_for_status()
        found += [answer.json()[key]["result"] for key in queries]
    return found


def right_ones(service: Service, rest: list[Fragment]) -> tuple[dict[str, str], dict[str, str]]:
    """The entity with most fragments of each label, and of each name."""
    with service.readers.store() as store:
        numbers = store.pages.numbers([fragment.id for fragment in rest])
        entity: dict[int, str] = {}
        for number in numbers.values():
            if number not in entity:
                id, members = store.entity_of(number)
                entity |= dict.fromkeys(members, id)
    of_label: dict[str, Counter[str]] = defaultdict(Counter)
    of_name: dict[str, Counter[str]] = defaultdict(Counter)
    for fragment in rest:
        id = entity[numbers[fragment.id]]
        if fragment.label:
            of_label[fragment.label][id] += 1
        for name in fragment.names:
            of_name[name][id] += 1
    by_label, by_name = (
        {key: min(counts, key=lambda id: (-counts[id], id)) for key, counts in of.items()}
        for of in (of_label, of_name)
    )
    return by_label, by_name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("fragments", help="a labelled file")
    parser.add_argument("--names", type=int, default=1000, help="length of the column")
    parser.add_argument("--with", nargs="*", default=[], dest="attributes", help="further columns")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    column, rest = held_out(list(read_fragments(given.fragments)), given.names, given.seed)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "kb.sqlite")
        add_fragments(path, rest, RunOptions())
        service = Service(path)
        right, of_name = right_ones(service, rest)
        with TestClient(application(service), "http://localhost") as client:
            found = reconciled(client, column, given.attributes)
        report(column, found, right, of_name)


def report(
    column: list[Fragment], found: list[Any], right: dict[str, str], of_name: dict[str, str]
) -> None:
    """Print the measures."""
    wanted = [right[fragment.label or ""] for fragment in column]
    rows = []
    for level in sorted({*LEVELS, CERTAIN}):
        sure = [
            bool(of) and of[0]["features"] != [] and of[0]["features"][0]["value"] >= level
            for of in found
        ]
        hits = sum(
            is_sure and of[0]["id"] == id
            for is_sure, of, id in zip(sure, found, wanted, strict=True)
        )
        precision = f"{hits / sum(sure):.3f}" if any(sure) else "-"
        named = f"{level:g}{' (match)' if level == CERTAIN else ''}"
        rows.append([named, f"{sum(sure):,}", precision, f"{hits / len(column):.3f}"])
    print(f"{len(column):,} names against {len(right):,} labels\n")
    print(table(["CERTAIN", "matches", "precision", "recall"], rows), end="\n\n")
    ranks = [
        next((at for at, one in enumerate(of, 1) if one["id"] == id), None)
        for of, id in zip(found, wanted, strict=True)
    ]
    known = [fragment.names[0] in of_name for fragment in column]
    lines = []
    for named, which in (
        ("all names", [True] * len(column)),
        ("names that the store has", known),
        ("other names", [not one for one in known]),
    ):
        own = [rank for rank, counts in zip(ranks, which, strict=True) if counts]
        shares = [
            sum(rank is not None and rank <= most for rank in own) / max(len(own), 1)
            for most in (1, 3, MOST)
        ]
        mean = sum(1 / rank for rank in own if rank) / max(len(own), 1)
        lines.append([named, f"{len(own):,}", *(f"{share:.3f}" for share in (*shares, mean))])
    ceiling = sum(
        of_name[fragment.names[0]] == id
        for fragment, id, counts in zip(column, wanted, known, strict=True)
        if counts
    )
    print(
        table(["rank of the right one", "names", "1", "to 3", f"to {MOST}", "mean 1/rank"], lines)
    )
    print(f"\nceiling of names that the store has {ceiling / max(sum(known), 1):.3f}")


if __name__ == "__main__":
    main()
