"""Opens an audit: a grouping of any program, its fragments, and the pair model that finds pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from kbforge.contracts import Fragment
from kbforge.errors import UsageError, quoted
from kbforge.evaluation.scores import demand_none
from kbforge.files.answers import AnswerFile
from kbforge.files.kinds import kind_of
from kbforge.fit.audit import AuditReview
from kbforge.fit.description import PairModel, PairOdds
from kbforge.fit.hypotheses import MOST_OF_PAIRS, PAIRS
from kbforge.fit.labels import read_table_of_entities
from kbforge.jobs.views import view_of
from kbforge.models.bundle import make_likelihood
from kbforge.store.database import is_store


def read_grouping(kb: str) -> tuple[list[tuple[str, ...]], list[Fragment]]:
    """The ids of each entity and, of a knowledge base, what the fragments state.

    A knowledge base is a file of entities or a store; anything else is read as a CSV or TSV table
    with two columns and a header: the id of a fragment, and any name of its entity.
    """
    if is_store(kb) or (kb != "-" and kind_of(kb) == "entities"):
        groups, fragments = [], list[Fragment]()
        view = view_of(kb)
        for entity in view.entities():
            groups.append(entity.fragments)
            fragments += view.fragments(entity)
        return groups, fragments
    return read_table_of_entities(kb), []


def open_audit(
    kb: str,
    given: Sequence[Fragment] | None,
    file: AnswerFile,
    count: int,
    seed: int = 0,
    partial: bool = False,
) -> AuditReview:
    """An audit of a knowledge base or table, to end with `count` answers.

    `given` are the clustered fragments; None takes what the knowledge base says of them. With
    `partial`, those that only one of the two has are left out.
    """
    groups, stated = read_grouping(kb)
    if given is None and not stated:
        raise UsageError(f"{quoted(kb, 400)} has no values to ask about; name the fragments, too")
    found = {fragment.id: fragment for fragment in (stated if given is None else given)}
    grouped = {id for ids in groups for id in ids}
    if not partial:
        demand_none([id for id in grouped if id not in found], "the knowledge base", "FRAGMENTS")
        demand_none([id for id in found if id not in grouped], "FRAGMENTS", "the knowledge base")
    fragments = [fragment for id, fragment in found.items() if id in grouped]
    if not 1 < len(fragments) <= MOST_OF_PAIRS:
        raise UsageError(
            f"expected 2 to {MOST_OF_PAIRS:,} fragments to audit, got {len(fragments):,}"
        )
    numbers = {fragment.id: number for number, fragment in enumerate(fragments)}
    entities = [[numbers[id] for id in ids if id in numbers] for ids in groups]
    held = [numbers for numbers in entities if numbers]
    return AuditReview(fragments, held, odds_of(fragments), file, count, seed)


def odds_of(fragments: Sequence[Fragment]) -> PairOdds:
    """The log odds of the pair model, fitted to the fragments."""
    likelihood = make_likelihood(PAIRS)
    likelihood.fit(fragments)
    return cast(PairModel, likelihood).pair_odds(fragments)
