"""Likelihoods: the probability that fragments describe one entity.

One signature for the family, in nats:

    log_marginal(clusters) -> [len(clusters)]      L(C), order-free; L of no fragments is 0

Laws, tested for every member by `kbforge.testing.LikelihoodContract`:

1. *Exchangeable*: permuting a cluster's fragments does not change L(C) (to 1e-9 relative).
2. *Deterministic*: the same cluster twice gives the same bits.
3. *Finite or -inf*: never NaN, never +inf.
4. *Labels are not read*: clearing `label`, `source` and `metadata` changes nothing.

There are three base classes. Take the last one that fits.

    Likelihood             you write log_marginal; the model may be a black box
    ConjugateLikelihood    you write a table, `LiveClusters`, that scores a fragment against all
                           clusters at once; such a model is fast and can be a surrogate
    AdditiveLikelihood     you write what a fragment adds to a cluster's statistics, and L of
                           statistics; the table is derived

5. *Consistent*: along any order of insertion, log_predictive sums to log_marginal (to 1e-8).
6. *Selective*: log_predictive_of some slots is log_predictive there, bit for bit.
7. *Atomic*: encode and all scoring methods may raise, and then leave the table unchanged; extend
   and release cannot fail.

Abilities are optional. A class states each with an attribute that is True, and defines its methods;
one without the other is a TypeError when the class is defined.

    attribute          methods                              what clusterers do without it
    explains           contributions                        `kbforge explain` refuses
    loads_bundles      from_bundle                          a model bundle of it is refused
    takes_device       (an option `device`)                 it runs on the CPU
    takes_link         (an option `link`)                   it compares what a link keeps apart
    keeps              dump, load                           a store fits it again when it opens

8. *Explains*: contributions sum to L(C + x) - L(C) - L({x}) (to 1e-8).
9. *Keeps*: a likelihood that loads what another with the same options dumped gives the same
   scores, bit for bit, dumps the same state, and has the same index keys.

Without evidence only the prior decides, and it prefers large clusters: every fragment without
evidence would join the largest one. So one more law separates what cannot be compared.

10. *Evidence*: a fragment that shares no attribute with a cluster gains nothing by joining it:
    L(C + x) <= L(C) + L({x}) (to 1e-8), also for attributes that the model has never seen. A
    likelihood that reads nothing on one of the two sides subtracts `UNREAD` (`unread_marginal`),
    which outweighs the prior of any cluster.

An `AdditiveLikelihood` is two functions:

    statistics(fragment) -> [D]          what a fragment adds to its cluster
    log_marginal_of(sums) -> [K]         L of clusters with these sums, shape [K, D]

Counts, sums and the number of fragments (a statistic that is always 1) all fit: the
Poisson, Bernoulli, multinomial, exponential and geometric families with their conjugate priors,
among others. Its own laws:

11. D is the same for all fragments of a run. Zero sums (no fragments) give 0.
12. Sums are exact enough to be undone: whole numbers are; squares of large numbers, which cancel,
    are not, so a Gaussian needs its own table.
13. L is finite, and `log_marginal_of` does not raise: `statistics` refuses what cannot be read.

Its table takes 8 D bytes a cluster and scores all clusters for each fragment, so it is for
statistics of up to some hundreds of numbers. Where that is too slow, write `LiveClusters`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.index import CandidateIndex, LearnedState
from kbforge.errors import LikelihoodError, quoted

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
Observation: TypeAlias = Any
"""An encoded fragment, ready to be scored and counted."""
PairAnswer: TypeAlias = tuple[Fragment, Fragment, float]
"""Two fragments, and the probability that they are one entity, by an answer."""


UNREAD = -60.0
"""Nats for a join where the model reads nothing of the fragment or of the cluster."""


def unread_marginal(unread: int, others: bool) -> float:
    """What fragments without readable content add to L of their cluster, in nats.

    `others`: whether the cluster also has fragments that the model can read.
    """
    return UNREAD * (unread - (not others)) if unread else 0.0


def _require_stated(cls: type[Likelihood], ability: str, *methods: str) -> None:
    """Raise a TypeError unless a class states exactly the abilities whose methods it defines."""
    own = [name for name in methods if _function(cls, name) is not _function(Likelihood, name)]
    if getattr(cls, ability):
        lacking = ", ".join(name for name in methods if name not in own)
        if lacking:
            raise TypeError(f"{cls.__name__} states {ability} = True; define {lacking}")
    elif own:
        raise TypeError(
            f"{cls.__name__} defines {', '.join(own)}; declare the ability: {ability} = True"
        )


def _function(cls: type, name: str) -> Any:
    method = getattr(cls, name)
    return getattr(method, "__func__", method)  # a class method is bound at each access


class Likelihood(ABC):
    """The log marginal probability of a set of fragments; may be a black box.

    Attributes:
        default_alpha: the concentration if none was calibrated.
        default_exponent: the prior's exponent of sizes, if the clusterer takes others than 1.
        surrogate: proposes joins, unless the user names another surrogate.
        index: chooses candidates, unless the user names another index; fitted with the likelihood.
        alpha_from_file: whether alpha is estimated from the file by default: the likelihood reads
            properties, and `default_alpha` is not used.
        takes_device: whether the constructor has the option `device`, "cpu" or "cuda".
        takes_link: whether the constructor has the option `link`, as `Constraints` has it. Then
            `default_alpha` suits linked tables.
        explains: whether `contributions` is defined.
        loads_bundles: whether `from_bundle` is defined.
        keeps: whether `dump` and `load` are defined.
        probability: whether L is of a probability model. If not, as for a sum of the log odds of
            pairs, the results are called scores and not log posteriors.

    """

    default_alpha: float = 1.0
    default_exponent: ClassVar[float] = 1.0
    surrogate: ConjugateLikelihood | None = None
    index: CandidateIndex | None = None
    alpha_from_file: ClassVar[bool] = False
    takes_device: ClassVar[bool] = False
    takes_link: ClassVar[bool] = False
    explains: bool = False
    loads_bundles: ClassVar[bool] = False
    keeps: bool = False
    probability: bool = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _require_stated(cls, "explains", "contributions")
        _require_stated(cls, "loads_bundles", "from_bundle")
        _require_stated(cls, "keeps", "dump", "load")

    @abstractmethod
    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        """L(C) of every cluster, in nats, shape [len(clusters)]."""

    def fit(self, fragments: Sequence[Fragment]) -> str | None:
        """Set parameters from the (unlabelled) fragments to be clustered, unless they were given.

        Returns a sentence for the user about what was fitted, or None.
        """
        return None

    def taught(self, answers: Sequence[PairAnswer]) -> Self:
        """The fitted likelihood with what all these answers teach; itself if it learns from none.

        Their fragments need not be among those that it was fitted to.
        """
        return self

    def index_of_many(self) -> CandidateIndex | None:
        """An unfitted index for many fragments, if the likelihood has none.

        None if no index finds the pairs that the likelihood joins.
        """
        return None

    def features(self, fragments: Sequence[Fragment]) -> Features | None:
        """The features by which fragments are compared, for hashing; None if there are none."""
        return None

    def contributions(self, fragment: Fragment, cluster: Sequence[Fragment]) -> Mapping[str, float]:
        """The contribution of each attribute to the fragment's being in the cluster, in nats."""
        raise NotImplementedError(
            f"{type(self).__name__} does not explain what each attribute contributes"
        )

    def contributions_to(
        self, fragment: Fragment, clusters: Sequence[Sequence[Fragment]]
    ) -> Sequence[Mapping[str, float]]:
        """The `contributions` to several clusters; override it if that is faster."""
        return [self.contributions(fragment, cluster) for cluster in clusters]

    def dump(self) -> LearnedState:
        """What `fit` learned, including that of the index."""
        raise NotImplementedError(f"{type(self).__name__} does not keep what it learned")

    def load(self, kept: LearnedState) -> None:
        """Load the state that a likelihood with the same options dumped; a ModelError if it is
        damaged."""
        raise NotImplementedError(f"{type(self).__name__} does not keep what it learned")

    def forget(self) -> None:  # noqa: B027  most remember nothing
        """Drop its caches of fragments other than those it was fitted to; its results do not
        change.

        A server that scores new fragments all the time calls it now and then.
        """

    @classmethod
    def from_bundle(cls, path: Path, *given: Any, **options: Any) -> Likelihood:
        """Load from a model bundle (a folder), strictly; the options are the constructor's.

        Raises:
            ModelError: its sentence names the difference.

        """
        raise NotImplementedError(f"{cls.__name__} does not load from bundles")


class ConjugateLikelihood(Likelihood):
    """A likelihood with sufficient statistics: it can serve as model and as surrogate."""

    @abstractmethod
    def live_clusters(self) -> LiveClusters:
        """A new, empty table."""

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        """The sum of the table's predictives; override it if a closed form is faster."""
        chained = [_filling(self.live_clusters(), cluster) for cluster in clusters]
        return np.array(chained, dtype=np.float64)


class LiveClusters(ABC):
    """The sufficient statistics of all clusters of one run, addressed by slot.

    The caller owns the slots: it numbers them from 0, without gaps, and may give a released slot to
    a new cluster. The table grows its arrays as needed.

    `encode` changes no score, except that the first encoded fragment may determine what the table
    reads, such as the number of dimensions.
    """

    @abstractmethod
    def encode(self, fragment: Fragment) -> Observation:
        """The features of a fragment.

        Raises:
            LikelihoodError: the fragment lacks what the model reads, such as a vector.

        """

    def encode_all(self, fragments: Sequence[Fragment]) -> Sequence[Observation]:
        """The features of several; override it if that is faster."""
        return [self.encode(fragment) for fragment in fragments]

    @abstractmethod
    def log_predictive(self, x: Observation, slots: int) -> FloatArray:
        """L(C + x) - L(C) for slots 0..slots-1, in nats, shape [slots].

        Entries of released slots are unspecified (but not NaN). The array belongs to the table
        and is overwritten by the next call.
        """

    @abstractmethod
    def log_predictive_new(self, x: Observation) -> float:
        """L({x}), in nats."""

    @abstractmethod
    def extend(self, x: Observation, parents: IntArray, children: IntArray) -> None:
        """Make cluster children[k] := parents[k] + x; a parent of -1 is the empty cluster.

        Children are distinct, hold no live cluster, and are not parents in the same call.
        """

    def release(self, slots: IntArray) -> None:  # noqa: B027
        """Release these slots, which may be used as children again.

        A table whose `extend` overwrites children needs no such method.
        """

    def log_predictive_of(self, x: Observation, slots: IntArray) -> FloatArray:
        """L(C + x) - L(C) of these live slots, in nats, shape [len(slots)].

        Override it if a few clusters can be scored faster than all.
        """
        return self.log_predictive(x, int(slots.max(initial=-1)) + 1)[slots]


def _filling(table: LiveClusters, cluster: Sequence[Fragment]) -> float:
    """L(C) as a sum of predictives, with the cluster in slots 0 and 1 in turn."""
    total, here = 0.0, -1
    for fragment in cluster:
        x = table.encode(fragment)
        if here < 0:
            total += table.log_predictive_new(x)
        else:
            total += float(table.log_predictive(x, here + 1)[here])
        old, here = here, int(here == 0)
        table.extend(x, np.array([old]), np.array([here]))
        if old >= 0:
            table.release(np.array([old]))
    return total


class Features(NamedTuple):
    """The features of n fragments, laid end to end.

    Attributes:
        starts: where the features of each fragment begin, shape [n + 1]; there may be none.
        names: numbers that identify the features, distinct within a fragment.
        values: counts or coordinates, finite and not 0.

    """

    starts: NDArray[np.int64]
    names: NDArray[np.uint64]
    values: NDArray[np.float64]


_FIRST_SLOTS = 64


class AdditiveLikelihood(ConjugateLikelihood):
    """A likelihood of sums of statistics."""

    @abstractmethod
    def statistics(self, fragment: Fragment) -> FloatArray:
        """What a fragment adds to its cluster, shape [D].

        Raises:
            LikelihoodError: the fragment lacks what the model reads.

        """

    @abstractmethod
    def log_marginal_of(self, sums: FloatArray) -> FloatArray:
        """L of clusters by the sums of their fragments' statistics [K, D], in nats, shape [K]."""

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        out = np.zeros(len(clusters))
        held = [i for i, cluster in enumerate(clusters) if cluster]
        if held:
            table = SumsOfClusters(self)
            sums = [np.sum([table.encode(f) for f in clusters[i]], axis=0) for i in held]
            out[held] = self.log_marginal_of(np.stack(sums))
        return out

    def live_clusters(self) -> LiveClusters:
        return SumsOfClusters(self)


class SumsOfClusters(LiveClusters):
    """The clusters of an `AdditiveLikelihood`: row 0 is the empty cluster, row s + 1 slot s."""

    def __init__(self, model: AdditiveLikelihood) -> None:
        self._model = model
        self._sums: FloatArray = np.zeros((0, 0))  # [rows, D]
        self._scores: FloatArray = np.zeros(0)  # L of each row

    def encode(self, fragment: Fragment) -> FloatArray:
        """The fragment's statistics, shape [D]; the first fragment sets D.

        Raises:
            LikelihoodError: the fragment lacks what the model reads, or its D differs.

        """
        x = np.asarray(self._model.statistics(fragment), dtype=np.float64)
        if not len(self._scores):
            self._sums, self._scores = np.zeros((_FIRST_SLOTS, len(x))), np.zeros(_FIRST_SLOTS)
        dimensions = self._sums.shape[1]
        if x.shape != (dimensions,):
            raise LikelihoodError(
                f'fragment "{quoted(fragment.id)}" has {x.size} statistics, expected '
                f"{dimensions} as the first one has"
            )
        return x

    def log_predictive(self, x: FloatArray, slots: int) -> FloatArray:
        self._reach(slots)
        rows = slice(1, slots + 1)
        return self._model.log_marginal_of(self._sums[rows] + x) - self._scores[rows]

    def log_predictive_of(self, x: FloatArray, slots: IntArray) -> FloatArray:
        rows = slots + 1
        return self._model.log_marginal_of(self._sums[rows] + x) - self._scores[rows]

    def log_predictive_new(self, x: FloatArray) -> float:
        return float(self._model.log_marginal_of(x[None])[0])

    def extend(self, x: FloatArray, parents: IntArray, children: IntArray) -> None:
        self._reach(int(children.max(initial=-1)) + 1)
        sums, rows = self._sums[parents + 1] + x, children + 1
        self._sums[rows], self._scores[rows] = sums, self._model.log_marginal_of(sums)

    def _reach(self, slots: int) -> None:
        """Grow the arrays to at least this many slots."""
        have = len(self._scores)
        if slots >= have:
            more = max(slots + 1 - have, have)
            self._sums = np.pad(self._sums, ((0, more), (0, 0)))
            self._scores = np.pad(self._scores, (0, more))
