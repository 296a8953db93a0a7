"""Candidate indexes: the clusters that a fragment is compared with."""

from collections.abc import Mapping

from kbforge.contracts import CandidateIndex
from kbforge.errors import UsageError, did_you_mean, quoted
from kbforge.indexes.ngrams import Ngrams
from kbforge.indexes.projection import Projection
from kbforge.indexes.selective import Selective
from kbforge.registry.options import bind_options

INDEXES: Mapping[str, type[CandidateIndex]] = {
    "ngrams": Ngrams,
    "projection": Projection,
    "selective": Selective,
}
"""The indexes that can be named."""


def make_index(
    name: str,
    options: Mapping[str, object] | None = None,
    among: Mapping[str, type[CandidateIndex]] = INDEXES,
) -> CandidateIndex:
    """The index of that name; a UsageError if there is none, or it lacks an option."""
    if name not in among:
        raise UsageError(
            f'there is no index "{quoted(name)}"{did_you_mean(name, list(among))}; '
            f"available: {', '.join(among)}"
        )
    return among[name](**bind_options(among[name], f"index {name}", options or {}))
