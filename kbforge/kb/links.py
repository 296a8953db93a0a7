"""Links between tables, with probabilities.

A table is a source of fragments; the first fragment belongs to the first table. A link connects a
record with its partner in a later table. Every record of the first table has a link for each later
table, possibly without a partner; a record of a later table has one only with a partner.

A mention may also be linked to an entity of an authority (`KnownLink`).

In CSV each field is a column. Records are quoted so that no spreadsheet evaluates them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import orjson

from kbforge.contracts import Fragment, Posterior
from kbforge.evaluation.reliability import LEAST, pair_probabilities
from kbforge.files.cells import csv_writer, safe
from kbforge.files.io import open_output
from kbforge.kb.entities import known_in
from kbforge.kb.similarity import DIGITS
from kbforge.registry import ending_of


class Link(NamedTuple):
    """A record and its partner in another table, with posterior probabilities."""

    table: str  # of the record
    record: str  # its id
    partner_table: str  # another table, a later one
    # the record there in the same entity, otherwise the most probable one above 1 %, otherwise None
    partner: str | None
    linked: bool  # whether the two are in one entity
    probability: float | None  # that the two are one entity; None without a partner
    runner_up: str | None  # the most probable other record of that table above 1 %
    runner_up_probability: float | None  # likewise


class KnownLink(NamedTuple):
    """A mention and the known entity that it belongs to, with posterior probabilities."""

    mention: str  # its id
    # the known entity that it is in, otherwise the most probable one above 1 %, otherwise None
    entity: str | None
    linked: bool  # whether the mention is in that entity
    probability: float | None  # that it belongs to the entity; None without one
    runner_up: str | None  # the most probable other known entity above 1 %
    runner_up_probability: float | None  # likewise
    new_probability: float  # that the mention is in no known entity


def known_links_of(fragments: Sequence[Fragment], posterior: Posterior) -> Iterator[KnownLink]:
    """The links to known entities, whose fragments are marked, by mention."""
    found: dict[int, KnownLink] = {}
    for subproblem in posterior.subproblems:
        mentions = [i for i in subproblem.fragments if fragments[i].known is None]
        shares: dict[int, dict[str, float]] = {i: {} for i in mentions}
        if len(mentions) < len(subproblem.fragments):
            for particle in subproblem.particles:
                weight = math.exp(particle.log_weight)
                for cluster in particle.clusters:
                    known = known_in(fragments, cluster)
                    if known is not None:
                        for i in shares.keys() & cluster:
                            shares[i][known] = shares[i].get(known, 0.0) + weight
        home = {
            i: known
            for cluster in subproblem.clusters
            if (known := known_in(fragments, cluster)) is not None
            for i in cluster
        }
        for i in mentions:
            found[i] = _known_link(fragments[i].id, home.get(i), shares[i])
    return (found[i] for i in sorted(found))


def _known_link(mention: str, home: str | None, shares: Mapping[str, float]) -> KnownLink:
    likely = {known: round(min(p, 1.0), DIGITS) for known, p in shares.items()}
    ranked = sorted(
        (known != home, -p, known) for known, p in likely.items() if p > LEAST or known == home
    )
    new = round(max(0.0, 1.0 - math.fsum(shares.values())), DIGITS)
    entity, probability, other, less = _two_best(ranked)
    return KnownLink(mention, entity, home is not None, probability, other, less, new)


def links_of(fragments: Sequence[Fragment], posterior: Posterior) -> Iterator[Link]:
    """The links of a clustering, table by table in the order of the records."""
    table = [x.source or "" for x in fragments]
    found: list[list[tuple[int, float]]] = [[] for _ in fragments]
    pairs = pair_probabilities([posterior])
    likely = pairs.probability.round(DIGITS)
    for a, b, p in zip(pairs.first.tolist(), pairs.second.tolist(), likely.tolist(), strict=True):
        found[a].append((b, p))
        found[b].append((a, p))
    entity = posterior.labels()
    tables = list(dict.fromkeys(table))
    for place, name in enumerate(tables):
        for record in np.flatnonzero([own == name for own in table]).tolist():
            for other in tables[place + 1 :]:
                ranked = sorted(
                    (entity[k] != entity[record], -p, k)
                    for k, p in found[record]
                    if table[k] == other and (p > LEAST or entity[k] == entity[record])
                )
                if ranked or not place:
                    named = [(apart, p, fragments[k].id) for apart, p, k in ranked]
                    yield _link(fragments[record], other, named)


def _link(x: Fragment, table: str, ranked: Sequence[tuple[bool, float, str]]) -> Link:
    partner, probability, other, less = _two_best(ranked)
    linked = bool(ranked) and not ranked[0][0]
    return Link(x.source or "", x.id, table, partner, linked, probability, other, less)


def _two_best(
    ranked: Sequence[tuple[bool, float, str]],
) -> tuple[str | None, float | None, str | None, float | None]:
    """The first of these, its probability, and the second with its own; None for missing ones."""
    first, second = [*((name, -p) for _, p, name in ranked[:2]), (None, None), (None, None)][:2]
    return *first, *second


def write_links(links: Sequence[Link] | Sequence[KnownLink], target: str) -> None:
    """Write links of one kind, as JSON lines if the target ends in .jsonl, else as CSV."""
    with open_output(target) as out:
        if ending_of(target) == ".jsonl":
            for link in links:
                out.write(orjson.dumps(link._asdict(), option=orjson.OPT_APPEND_NEWLINE))
            return
        with csv_writer(out) as writer:
            writer.writerow(links[0]._fields if links else Link._fields)
            writer.writerows(map(_cells, links))


def _cells(link: Link | KnownLink) -> list[str]:
    return [
        safe(value) if isinstance(value, str) else "" if value is None else repr(value).lower()
        for value in link
    ]
