"""A session as plain data, and back: arrays, numbers, tuples; no objects of any algorithm.

A black box's scores are stored, since a neural one need not say the same to the last bit in another
batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kbforge.clustering.core import Core
from kbforge.clustering.online.black_box import BlackBoxScorer
from kbforge.clustering.paging.codec import hold, numbers_in, page_of
from kbforge.clustering.paging.totals import resume, totals_of
from kbforge.contracts import Snapshot


def snapshot_of(core: Core, settings: Mapping[str, Any]) -> Snapshot:
    """What it takes to go on from here; the session has all of it here."""
    model = core.model
    return Snapshot(
        tuple(model.fragments.values()),
        totals_of(core, settings),
        tuple(page_of(core.state, name) for name in sorted(core.state.blocks)),
        {} if model.candidates is None else model.candidates.contents(),
        model.sets.contents() if isinstance(model, BlackBoxScorer) else {},
    )


def restore(core: Core, snapshot: Snapshot, settings: Mapping[str, Any]) -> None:
    """Put a snapshot into an empty session.

    Raises:
        UsageError: as `resume`.

    """
    resume(core, snapshot.totals, settings, "the snapshot is")
    numbers = numbers_in(snapshot.pages)
    hold(core, snapshot.pages, dict(zip(numbers, snapshot.fragments, strict=True)))
    if core.model.candidates is not None:
        core.model.candidates.take_up(snapshot.led)
    if isinstance(core.model, BlackBoxScorer):
        core.model.sets.remember(snapshot.scores)
