"""Clustering against an authority, beside clustering all of it together.

    KBFORGE_DATA=... python examples/reproductions/against.py [SET ...]
    KBFORGE_DATA=... python examples/reproductions/against.py --large

Half of the entities are known, by a digest of their labels: the first half of the fragments of each
(rounded up) is the authority. All other fragments are mentions. Precision and recall are of the
mentions that are linked to a known entity: those linked to the right one, among all that are
linked, and among all that belong to a known entity. Where all is clustered together, a mention is
linked to the known entity that most of the authority's fragments in its entity are of.

`--large` clusters 20,000 mentions against 500,000 known entities on the command line, each a record
of chadwick_1M, and prints seconds and memory.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import islice
from pathlib import Path

from shell import data_folder, kbforge_json, table

from kbforge import cluster
from kbforge.contracts import Fragment
from kbforge.files.fragments import read_fragments, write_fragments

SETS = {
    "chadwick_10k": "chadwick/chadwick_10k.jsonl.gz",
    "places_ne": "more/places_ne/places_ne.jsonl.gz",
    "ror": "more/ror/ror.jsonl.gz",
}
LARGE = "chadwick/chadwick_1M.jsonl.gz"
MENTIONS, KNOWN = 20_000, 500_000


def halves(fragments: Sequence[Fragment]) -> tuple[list[Fragment], list[Fragment]]:
    """The authority, and the mentions."""
    by_label: dict[str | None, list[Fragment]] = {}
    for x in fragments:
        by_label.setdefault(x.label, []).append(x)
    known: list[Fragment] = []
    mentions: list[Fragment] = []
    for label, some in by_label.items():
        half = (len(some) + 1) // 2 if blake2b(str(label).encode()).digest()[0] % 2 == 0 else 0
        known += some[:half]
        mentions += some[half:]
    return known, mentions


def scores(
    linked: Mapping[str, str | None], mentions: Sequence[Fragment], known: Sequence[Fragment]
) -> tuple[float, float]:
    """Precision and recall."""
    labels = {x.label for x in known}
    right = sum(linked.get(x.id) == x.label for x in mentions if x.id in linked)
    return right / len(linked), right / sum(x.label in labels for x in mentions)


def against(known: Sequence[Fragment], mentions: Sequence[Fragment]) -> dict[str, str | None]:
    """By mention that is linked, its known entity."""
    kb = cluster(mentions, against=known)
    return {link.mention: link.entity for link in kb.links if link.linked}


def together(known: Sequence[Fragment], mentions: Sequence[Fragment]) -> dict[str, str | None]:
    """The same where all is clustered."""
    label = {x.id: x.label for x in known}
    linked: dict[str, str | None] = {}
    for entity in cluster([*known, *mentions]).entities:
        counts = Counter(label[id] for id in entity.fragments if id in label)
        if counts:
            most = counts.most_common(1)[0][0]
            linked |= {id: most for id in entity.fragments if id not in label}
    return linked


def compare(names: Sequence[str]) -> None:
    """Print a table."""
    rows = []
    for name in names:
        fragments = list(read_fragments(str(data_folder() / SETS[name])))
        known, mentions = halves(fragments)
        row = [name, f"{len({x.label for x in known}):,}", f"{len(mentions):,}"]
        for method in (against, together):
            begin = time.process_time()
            precision, recall = scores(method(known, mentions), mentions, known)
            f1 = 2 * precision * recall / (precision + recall)
            spent = time.process_time() - begin
            row += [f"{precision:.3f}", f"{recall:.3f}", f"{f1:.3f}", f"{spent:,.0f}"]
        print(row, file=sys.stderr)
        rows.append(row)
    head = ["precision", "recall", "F1", "CPU s"]
    print(table(["set", "known", "mentions", *head, *(f"together: {name}" for name in head)], rows))


def large() -> None:
    """Print what the large case takes."""
    some = islice(read_fragments(str(data_folder() / LARGE)), KNOWN + MENTIONS)
    known: list[Fragment] = []
    mentions: list[Fragment] = []
    for number, x in enumerate(some):
        if number % 26 == 25:
            mentions.append(x)
        else:
            known.append(replace(x, label=None))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_fragments(known, folder / "known.jsonl")
        write_fragments(mentions, folder / "mentions.jsonl")
        files = (folder / "mentions.jsonl", "--against", folder / "known.jsonl")
        found = kbforge_json("cluster", *files, "-o", folder / "kb.jsonl")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = used.ru_utime + used.ru_stime
    figures = {
        "known": f"{found['known_entities']:,}",
        "mentions": f"{found['mentions']:,}",
        "likelihood": found["likelihood"],
        "seconds": f"{found['seconds']:.0f}",
        "CPU s": f"{spent:.0f}",
        "GiB": f"{used.ru_maxrss / 2**20:.2f}",
    }
    print(table(list(figures), [list(figures.values())]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sets", nargs="*", metavar="SET", help=", ".join(SETS))
    parser.add_argument("--large", action="store_true")
    given = parser.parse_args()
    if given.large:
        large()
    else:
        compare(given.sets or list(SETS))
