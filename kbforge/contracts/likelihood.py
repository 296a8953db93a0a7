"""Likelihoods and surrogates: how probable is it that these fragments are one entity?

One signature for the family, in nats:

    log_marginal(clusters) -> [len(clusters)]      L(C), order-free; L of no fragments is 0

Laws, tested for every member by `kbforge.testing.likelihood`:

1. *Exchangeable*: permuting a cluster's fragments does not change L(C) (to 1e-9 relative).
2. *Deterministic*: the same cluster twice gives the same bits.
3. *Finite or -inf*: never NaN, never +inf.
4. *Labels are not read*: clearing `label`, `source` and `metadata` changes nothing.

A likelihood whose clusters have sufficient statistics also offers `live_clusters()`: a table of
clusters addressed by integer slots that scores one fragment against all of them at once. That is
what the clusterers use for conjugate models, and what makes a model fit to be a surrogate.

5. *Consistent*: along any order of insertion, log_predictive sums to log_marginal (to 1e-8).

Three more abilities of a table are optional; clusterers do without them, slower:

6. *Selective*: log_predictive_of some slots is log_predictive there, bit for bit.
7. *Editable*: whatever fragments were added and removed, a table scores as one that was filled
   with those that are left (to 1e-9 after thousands of moves).
8. *Mergeable*: log_merge_ratio is the difference of the log marginals (to 1e-8), and a table whose
   clusters were merged scores as one that was filled with the whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.index import CandidateIndex

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
Observation: TypeAlias = Any
"""What a live table makes of a fragment: its features, ready to be scored and counted."""


@runtime_checkable
class Likelihood(Protocol):
    """The log marginal probability of a set of fragments; may be a black box."""

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        """L(C) of every cluster, in nats, shape [len(clusters)]."""
        ...


class LiveClusters(Protocol):
    """The sufficient statistics of all clusters of one run, addressed by slot.

    The caller owns the slots: it numbers them from 0, grows them without gaps, and may hand a
    released slot to a new cluster. The table sizes its arrays to what it has seen.

    `encode`, and everything that scores, may raise and leaves the table as it was: what they
    remember changes no score, except that the first fragment encoded may settle what the table
    reads (its dimensions, say). `extend` and `release` of what was encoded cannot raise.
    """

    def encode(self, fragment: Fragment) -> Observation:
        """The features of a fragment.

        Raises:
            LikelihoodError: the fragment lacks what the model reads (a vector, say).

        """
        ...

    def log_predictive(self, x: Observation, slots: int) -> FloatArray:
        """L(C + x) - L(C) for slots 0..slots-1, in nats, shape [slots].

        Entries of released slots are unspecified (but not NaN). The array belongs to the table
        and is overwritten by the next call.
        """
        ...

    def log_predictive_new(self, x: Observation) -> float:
        """L({x}), in nats."""
        ...

    def extend(self, x: Observation, parents: IntArray, children: IntArray) -> None:
        """Make cluster children[k] := parents[k] + x; a parent of -1 is the empty cluster.

        Children are distinct, hold no live cluster, and are no one's parent in the same call.
        """
        ...

    def release(self, slots: IntArray) -> None:
        """Forget these clusters; their slots may come back as children."""
        ...


@runtime_checkable
class SelectiveClusters(LiveClusters, Protocol):
    """Live clusters of which a few can be scored without looking at the others."""

    def log_predictive_of(self, x: Observation, slots: IntArray) -> FloatArray:
        """L(C + x) - L(C) of these live slots, in nats, shape [len(slots)]."""
        ...


@runtime_checkable
class EditableClusters(LiveClusters, Protocol):
    """Live clusters that fragments can leave, as samplers need that move them one by one."""

    def log_predictive_held(self, x: Observation, slot: int) -> float:
        """L(C) - L(C - x) of a live cluster C that holds x, in nats."""
        ...

    def add(self, x: Observation, slot: int) -> None:
        """C := C + x, in place; C is live."""
        ...

    def remove(self, x: Observation, slot: int) -> None:
        """C := C - x, in place; C is live, holds x and is not empty without it."""
        ...


@runtime_checkable
class MergeableClusters(LiveClusters, Protocol):
    """Live clusters that can become one, as agglomerative clustering needs."""

    def log_merge_ratio(self, slot: int, slots: int) -> FloatArray:
        """L(C + D) - L(C) - L(D) of C in `slot` and D in slots 0..slots-1, shape [slots].

        Entries of `slot` itself and of released slots are unspecified (but not NaN). The array
        belongs to the table and may be overwritten by the next call.
        """
        ...

    def merge(self, slot: int, into: int) -> None:
        """D := D + C, in place, of C in `slot`, which is released, and D in `into`."""
        ...


@runtime_checkable
class ConjugateLikelihood(Likelihood, Protocol):
    """A likelihood with sufficient statistics: it can serve as model and as surrogate."""

    def live_clusters(self) -> LiveClusters:
        """A new, empty table."""
        ...


@runtime_checkable
class SelfFitting(Protocol):
    """A likelihood that can set its parameters from the (unlabelled) fragments it will cluster."""

    def fit(self, fragments: Sequence[Fragment]) -> str | None:
        """Fit to the input if nothing better was given.

        Returns:
            One sentence for the user that says what was fitted, or None if nothing was.

        """
        ...


@runtime_checkable
class Accompanied(Protocol):
    """A likelihood that brings the surrogate to propose for it when the user names none."""

    @property
    def surrogate(self) -> ConjugateLikelihood | None:
        """The surrogate, or None if there is none."""
        ...


@runtime_checkable
class Indexed(Protocol):
    """A likelihood that brings the index to use when the user names none, fitted with it."""

    @property
    def index(self) -> CandidateIndex:
        """The index."""
        ...


@runtime_checkable
class Explaining(Protocol):
    """A likelihood that tells what each attribute says for a fragment's being in a cluster."""

    def contributions(self, fragment: Fragment, cluster: Sequence[Fragment]) -> Mapping[str, float]:
        """By attribute, in nats; they sum to L(C + x) - L(C) - L({x}) (to 1e-8)."""
        ...


@runtime_checkable
class Bundled(Protocol):
    """A likelihood that loads itself from a model bundle (a folder)."""

    @classmethod
    def from_bundle(cls, path: Path, **options: Any) -> Likelihood:
        """Load strictly.

        Raises:
            ModelError: with a sentence that says what differs.

        """
        ...
