"""A subproblem as a page, and back into a session.

Clusters keep their slots, and a page has them in the order in which they are to be freed: sums over
particles are taken in an order that slots decide. What can be worked out again to the same bits is
not in a page: membership masks, terms, and what a live table holds, which is filled again along the
clusters' lineage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kbforge.clustering.core import Core
from kbforge.clustering.online.lineage import Lineage
from kbforge.clustering.state import Block, State
from kbforge.contracts import Cluster, Fragment, IntArray, Page


def page_of(state: State, name: int) -> Page:
    """A subproblem as plain data."""
    block = state.blocks[name]
    slots = block.slots.copy()
    members = [state.members(slot) for slot in slots.tolist()]
    state.place[slots] = state.arange(len(slots))
    return Page(
        name=name,
        slots=slots,
        lengths=np.array([len(held) for held in members], dtype=np.int64),
        members=np.array([number for held in members for number in held], dtype=np.int64),
        scores=state.score[slots],
        rows=np.diff(block.row_start),
        cells=state.place[block.cells],
        weights=block.weights.copy(),
    )


def hold(core: Core, pages: Sequence[Page], fragments: Mapping[int, Fragment]) -> None:
    """Put subproblems into a session that has numbered their fragments and slots.

    Whatever is raised, nothing has changed.

    Args:
        core: holds none of them.
        pages: of the subproblems.
        fragments: theirs, by number, ascending.

    """
    if not pages:
        return
    state = core.state
    clusters = {slot: cluster for page in pages for slot, cluster in clusters_of(page).items()}
    scores: list[float] = np.concatenate([page.scores for page in pages]).tolist()
    lineage = Lineage(clusters, state.n_slots)
    core.model.hold(fragments, lineage, clusters, scores)
    _put_clusters(state, pages, lineage, clusters)
    effective = state.log10_effective_particles  # counts what lies elsewhere
    for page in pages:
        state.install(page.name, _block(state, page, clusters))
    state.log10_effective_particles = effective
    core.homes.follow([page.name for page in pages])
    core.ids.put(fragments)
    if core.bindings is not None:
        for number, x in fragments.items():
            core.bindings.take_in(number, x)
        core.bindings.regroup((), clusters)


def numbers_in(pages: Sequence[Page]) -> list[int]:
    """The numbers of their fragments, ascending."""
    return sorted({number for page in pages for number in page.members.tolist()})


def clusters_of(page: Page) -> dict[int, Cluster]:
    """By slot, the fragments of a page's clusters."""
    held = np.split(page.members, np.cumsum(page.lengths)[:-1])
    return {
        slot: tuple(members.tolist())
        for slot, members in zip(page.slots.tolist(), held, strict=True)
    }


def _put_clusters(
    state: State, pages: Sequence[Page], lineage: Lineage, clusters: Mapping[int, Cluster]
) -> None:
    slots = np.concatenate([page.slots for page in pages])
    size = np.concatenate([page.lengths for page in pages])
    score = np.concatenate([page.scores for page in pages])
    first: IntArray = np.array([cluster[0] for cluster in clusters.values()], dtype=np.int64)
    state.put_clusters(slots, size, first, score, state.log_terms(size, score))
    for slot in clusters:
        state.links[slot] = lineage.link(slot)


def _block(state: State, page: Page, clusters: Mapping[int, Cluster]) -> Block:
    """The page's subproblem; its clusters get masks of which the bits are its fragments."""
    bit = {number: 1 << at for at, number in enumerate(numbers_in([page]))}
    for slot in page.slots.tolist():
        state.mask[slot] = sum(bit[number] for number in clusters[slot])
    row_start = np.concatenate([[0], np.cumsum(page.rows)])
    return Block(page.slots[page.cells], row_start, page.weights, page.slots, len(bit))
