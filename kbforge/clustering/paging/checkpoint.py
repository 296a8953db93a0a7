"""The changes of a session since its last checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kbforge.clustering.core import Core
from kbforge.clustering.paging.codec import page_of
from kbforge.clustering.paging.totals import totals_of
from kbforge.contracts import Checkpoint


def checkpoint_of(core: Core, settings: Mapping[str, Any]) -> Checkpoint:
    """The pages and keys that are not as they were; from now on they are as they were."""
    blocks, since = core.state.blocks, core.since
    names = blocks if since is None else [name for name in since if name in blocks]
    gone = [] if since is None else [n for n, was in since.items() if was and n not in blocks]
    candidates = core.model.candidates
    core.since = {}
    return Checkpoint(
        totals_of(core, settings),
        tuple(page_of(core.state, name) for name in sorted(names)),
        tuple(sorted(gone)),
        {} if candidates is None else candidates.changed(),
    )
