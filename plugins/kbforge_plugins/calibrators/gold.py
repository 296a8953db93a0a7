"""The gold clustering that labelled fragments state."""

from __future__ import annotations

from collections.abc import Sequence

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.posterior import Cluster
from kbforge.errors import KBForgeError


def labelled_only(fragments: Sequence[Fragment], calibrator: str) -> list[Fragment]:
    """The fragments that carry a gold label, in order.

    Raises:
        KBForgeError: none does.

    """
    labelled = [fragment for fragment in fragments if fragment.label is not None]
    if not labelled:
        raise KBForgeError(
            f"calibrator {calibrator}: none of the {len(fragments):,} fragments has a label; "
            f"label some or use --calibrator empirical-bayes"
        )
    return labelled


def gold_clusters(labelled: Sequence[Fragment]) -> list[Cluster]:
    """Indices of the fragments of each label, clusters in order of their first fragment."""
    members: dict[str | None, list[int]] = {}
    for index, fragment in enumerate(labelled):
        members.setdefault(fragment.label, []).append(index)
    return [tuple(cluster) for cluster in members.values()]
