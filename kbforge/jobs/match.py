"""Matches a fragment with the entities of a store without adding it.

The answer is the posterior of the step that would add fragment x, exact over the particles that
the store keeps (symbols as in `kbforge.clustering.rules`). x joins cluster C of particle i of
subproblem s, or none, with weight

    w_si |C| exp(L(C + x) - L(C))        alpha exp(L({x}))

Subproblems are independent and their particles' weights sum to 1, so other subproblems cancel out,
and a cluster counts with the weight of all particles that contain it. A cluster of an improbable
particle counts for the entity with most of its fragments.

x is compared with the same clusters as in the step: the index returns keys, the store their
families. With a surrogate only its best joins are scored. `--link` separates x from entities with
its value; decisions do not affect a fragment outside the store.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

import numpy as np

from kbforge.clustering.constraints import components_of, satisfied
from kbforge.clustering.scoring import without_model
from kbforge.clustering.tables import RuledIndex
from kbforge.contracts import (
    CandidateIndex,
    Cluster,
    ConjugateLikelihood,
    Explanation,
    FloatArray,
    Fragment,
    KeyFamilies,
    ModelSpec,
    SubproblemData,
)
from kbforge.contracts.entity import Natural, Probability
from kbforge.errors import LikelihoodError, quoted
from kbforge.evaluation.reliability import ReportedEntities, ReportedPairs
from kbforge.fit.choices import PreparedRun
from kbforge.fit.confidence import ConfidenceMap
from kbforge.fit.features import ClusteringReport
from kbforge.fit.review import explained_all
from kbforge.jobs.cluster_cache import ClusterCache, fragments_in
from kbforge.numerics import on_grid
from kbforge.store.pages import numbers_from_bytes
from kbforge.store.store import Store
from kbforge.store.tables import rows_of

E = TypeVar("E")
"""An answer's reference to an entity: its id, or more."""

_MOST_ASKED = 8
"""Maximum number of an entity's fragments that a map of pairs compares; it takes their mean."""
_READ_AT_ONCE = 32
"""Families whose subproblems are read together."""
_LEAST_ASKED = 0.1
"""Minimum reported probability for using a map."""
_LEAST_EXPLAINED = 1e-3
"""Minimum reported probability for an explanation; the first entity always has one."""
_MOST_EXPLAINED = 100
"""Maximum number of fragments of an entity that an explanation compares, as in a review."""


@dataclass(frozen=True, slots=True)
class Candidate(Generic[E]):
    """An entity that the fragment may belong to.

    `reported` is the probability that the fragment joins it, and `probability` the same, calibrated
    where the store has a map of confidence. `total` is the log odds of joining its clusters against
    staying alone, nats, and null in JSON if they are infinite. `explanation` has the contributions
    of attributes to joining it, None if the likelihood has none.
    """

    entity: E
    probability: Probability
    reported: Probability
    total: float | None
    explanation: Explanation | None


@dataclass(frozen=True, slots=True)
class Match(Generic[E]):
    """Where a fragment would go; the most probable candidates come first.

    `new` is the reported probability that it belongs to no entity of the store, and `compared` the
    number of clusters that it was compared with.
    """

    candidates: Sequence[Candidate[E]]
    new: Probability
    compared: Natural
    likelihood: str
    unit: Literal["nats", "points"]


class _Rival(NamedTuple):
    """A cluster that the fragment may join."""

    cluster: Cluster
    subproblem: int
    score: float  # L(C), nats
    weights: FloatArray  # of the particles that have it, shape [particles]

    @property
    def mass(self) -> float:
        """The weight of all particles that contain it."""
        return float(self.weights.sum())


def match(
    store: Store,
    fit: PreparedRun,
    fragment: Fragment,
    most: int = 10,
    clusters: ClusterCache | None = None,
) -> Match[str]:
    """The entities that a fragment may belong to, up to a maximum.

    `fit` has the models of the store (`kbforge.jobs.models.restore`). A likelihood may cache what
    it reads, so only one match at a time may use it. `clusters` is the cache shared by matches with
    these models.

    Raises:
        LikelihoodError: the likelihood cannot read the fragment.
        KBForgeError: the store is damaged.

    """
    spec = without_model(fit.spec)
    with store.database.snapshot():
        rivals = _allowed(store, _rivals(store, spec, fragment), fragment)
        cache = ClusterCache() if clusters is None else clusters
        rivals, gains, alone = _scored(store, spec, rivals, fragment, cache)
        weights = np.array(
            [
                math.log(rival.mass) + spec.exponent * math.log(len(rival.cluster))
                for rival in rivals
            ]
        )
        weights = np.append(weights + gains, math.log(spec.alpha) + alone)
        if weights.max() == -np.inf:
            raise LikelihoodError("the fragment has no finite assignment")
        shares = np.exp(weights - weights.max())
        shares /= shares.sum()
        best = _by_entity(store, rivals, shares[:-1].tolist())[:most]
        candidates = _candidates(store, fit, fragment, best, float(shares[-1]))
    return Match(candidates, float(shares[-1]), len(rivals), fit.likelihood, fit.unit)


# --- what it is compared with ---------------------------------------------------------------------


def _rivals(store: Store, spec: ModelSpec, fragment: Fragment) -> list[_Rival]:
    """The clusters to which the step would compare a fragment."""
    if spec.index is None:
        pages = store.pages.pages(store.pages.names())
        return [rival for page in pages for rival in _of_page(page)]
    index = RuledIndex(spec.index, store.pages.totals.constraints)
    reach = _Reach(store, index)
    families = set(reach.nearest(store.pages.postings(index.keys(fragment)).values()))
    return [rival for _, page in sorted(reach.pages.items()) for rival in _of_page(page, families)]


class _Reach:
    """The families of keys in a store, by the rules of the kernel's index.

    A closed key may lead to a thousand subproblems, so the nearest are read first, and no more than
    are compared.
    """

    def __init__(self, store: Store, index: CandidateIndex) -> None:
        self._store, self._index = store, index
        self.pages: dict[int, SubproblemData] = {}
        self._asked = set[int]()
        self._live = set[int]()
        self._heaviest = set[int]()  # families of clusters of heaviest particles

    def nearest(self, postings: Iterable[KeyFamilies]) -> list[int]:
        """The families to compare a fragment with, given the families of its keys."""
        keys = list(postings)
        left = [found for found in keys if not found.closed and not self._is_too_far(found)]
        return self._most_shared(left) or self._most_shared(keys)

    def _is_too_far(self, postings: KeyFamilies) -> bool:
        """Whether an open key leads to so many families that it must be closed."""
        most = self._index.families
        if len(postings.families) <= most:
            return False
        self._read(postings.families)
        return len(self._heaviest.intersection(postings.families)) > most

    def _most_shared(self, postings: Iterable[KeyFamilies]) -> list[int]:
        """The live families with most keys, and at least `shared` keys if any has them."""
        counts = Counter(family for found in postings for family in found.families)
        nearest = sorted(counts, key=lambda family: (-counts[family], family))
        enough = sum(n >= self._index.shared for n in counts.values())
        return self._first_live(nearest[:enough]) or self._first_live(nearest[enough:])

    def _first_live(self, families: Sequence[int]) -> list[int]:
        """The first live ones, up to the maximum compared."""
        most, out = self._index.compared or len(families), list[int]()
        for begin in range(0, len(families), _READ_AT_ONCE):
            part = families[begin : begin + _READ_AT_ONCE]
            self._read(part)
            out += [family for family in part if family in self._live]
            if len(out) >= most:
                break
        return out[:most]

    def _read(self, families: Sequence[int]) -> None:
        """Read the subproblems of families."""
        new = [family for family in families if family not in self._asked]
        self._asked.update(new)
        homes = set(self._store.pages.homes(new).values())
        for page in self._store.pages.pages(sorted(homes - self.pages.keys())):
            self.pages[page.name] = page
            firsts = page.members[np.cumsum(page.lengths) - page.lengths]
            self._live.update(firsts.tolist())
            self._heaviest.update(firsts[page.cells[: page.rows[0]]].tolist())


def _of_page(page: SubproblemData, families: Collection[int] | None = None) -> list[_Rival]:
    """The clusters of a subproblem, or those of some families."""
    firsts = page.members[np.cumsum(page.lengths) - page.lengths].tolist()
    chosen = [at for at, first in enumerate(firsts) if families is None or first in families]
    if not chosen:
        return []
    weights, order = np.exp(page.weights).repeat(page.rows), page.cells.argsort(kind="stable")
    ends = np.cumsum(page.lengths).tolist()
    shown = np.cumsum(np.bincount(page.cells, minlength=len(ends))).tolist()
    members, scores = page.members.tolist(), page.scores.tolist()
    return [
        _Rival(
            tuple(members[ends[at - 1] if at else 0 : ends[at]]),
            page.name,
            scores[at],
            weights[order[shown[at - 1] if at else 0 : shown[at]]],
        )
        for at in chosen
    ]


def _allowed(store: Store, rivals: list[_Rival], x: Fragment) -> list[_Rival]:
    """The clusters that constraints let a fragment join."""
    constraints = store.pages.totals.constraints
    if not (constraints.stated(x) or constraints.differing(x) or constraints.shared(x)):
        return rivals
    fragments = fragments_in(store, [rival.cluster for rival in rivals])
    numbers = sorted(fragments)
    components = components_of(constraints, [*(fragments[n] for n in numbers), x])
    tags = {n: components.tags(fragments[n]) for n in numbers} | {_NEW: components.tags(x)}
    one = tags[_NEW].component
    same = {n for n in numbers if one is not None and tags[n].component == one}
    return [
        rival
        for rival in rivals
        if (not same or not same.isdisjoint(rival.cluster))
        and satisfied([(*rival.cluster, _NEW)], tags, components.apart)
    ]


_NEW = -1
"""The number of a fragment that the store does not have."""


# --- what the likelihood says ---------------------------------------------------------------------


def _scored(
    store: Store, spec: ModelSpec, rivals: list[_Rival], x: Fragment, cache: ClusterCache
) -> tuple[list[_Rival], FloatArray, float]:
    """The scored clusters, L(C + x) - L(C) of each, and L({x}), nats."""
    likelihood, surrogate = spec.likelihood, spec.surrogate
    if surrogate is not None and spec.max_evals is not None:
        scored = [(rival.cluster, rival.score) for rival in rivals]
        gains, _ = cache.gains(store, surrogate, scored, x)
        rivals = _proposed(rivals, gains, spec.max_evals, spec.exponent)
    if isinstance(likelihood, ConjugateLikelihood):
        scored = [(rival.cluster, rival.score) for rival in rivals]
        return rivals, *_scores(x, *cache.gains(store, likelihood, scored, x))
    fragments = fragments_in(store, [rival.cluster for rival in rivals])
    sets = [[fragments[number] for number in rival.cluster] for rival in rivals]
    told = likelihood.log_marginal([*([*held, x] for held in sets), [x]])
    gains = np.asarray(told, np.float64)[:-1] - np.array([rival.score for rival in rivals])
    return rivals, *_scores(x, gains, float(told[-1]))


def _scores(x: Fragment, gains: FloatArray, alone: float) -> tuple[FloatArray, float]:
    """Refuse NaN."""
    if np.isnan(alone) or alone == np.inf or not (gains < np.inf).all():
        raise LikelihoodError(f'the likelihood of fragment "{quoted(x.id)}" is not a number')
    return gains, alone


def _proposed(
    rivals: Sequence[_Rival], gains: FloatArray, most: int, exponent: float
) -> list[_Rival]:
    """The clusters of the `most` heaviest putative particles, with their weights."""
    values = [
        on_grid(gain + exponent * math.log(len(rival.cluster)) + np.log(rival.weights)).tolist()
        for rival, gain in zip(rivals, gains.tolist(), strict=True)
    ]
    heaviest = sorted((-value, k, at) for k, of in enumerate(values) for at, value in enumerate(of))
    kept: dict[int, list[int]] = {}
    for _, k, at in heaviest[:most]:
        kept.setdefault(k, []).append(at)
    return [rivals[k]._replace(weights=rivals[k].weights[kept[k]]) for k in sorted(kept)]


# --- what it says of entities ---------------------------------------------------------------------


class _Best(NamedTuple):
    """An entity with the probability that the fragment joins it."""

    entity: str
    members: Cluster
    size: int  # fragments of its subproblem
    share: float


def _by_entity(store: Store, rivals: Sequence[_Rival], shares: Sequence[float]) -> list[_Best]:
    """The entities of clusters, the most probable first."""
    names = sorted({rival.subproblem for rival in rivals})
    rows = rows_of(store.database.connection, "entity", "subproblem", names)
    holder: dict[int, int] = {}
    entities: list[tuple[str, Cluster]] = []
    sizes: dict[int, int] = {}
    homes: list[int] = []
    for id, home, content in rows:
        members = tuple(numbers_from_bytes(content).tolist())
        holder.update(dict.fromkeys(members, len(entities)))
        entities.append((id, members))
        homes.append(home)
        sizes[home] = sizes.get(home, 0) + len(members)
    total: dict[int, list[float]] = {}
    for rival, share in zip(rivals, shares, strict=True):
        counts: dict[int, int] = {}
        for number in rival.cluster:
            counts[holder[number]] = counts.get(holder[number], 0) + 1
        most = max(counts, key=lambda at: (counts[at], -entities[at][1][0]))
        total.setdefault(most, []).append(share)
    best = [_Best(*entities[at], sizes[homes[at]], math.fsum(parts)) for at, parts in total.items()]
    return sorted(best, key=lambda one: (-one.share, one.members))


def _candidates(
    store: Store, fit: PreparedRun, x: Fragment, best: Sequence[_Best], new: float
) -> tuple[Candidate[str], ...]:
    """Entities with their calibrated probabilities and explanations."""
    wanted = [one.members[:_MOST_EXPLAINED] for one in best]
    fragments = fragments_in(store, wanted)
    probability = [one.share for one in best]
    if fit.confidence is not None and best:
        probability = _calibrated(fit.confidence, x, best, fragments)
    reasons: list[Explanation | None] = [None] * len(best)
    if fit.spec.likelihood.explains:
        likely = [of for of, one in zip(wanted, best, strict=True) if one.share >= _LEAST_EXPLAINED]
        held = [[fragments[n] for n in of] for of in likely or wanted[:1]]
        reasons[: len(held)] = explained_all(fit.spec, x, held)
    out = []
    for one, sure, why in zip(best, probability, reasons, strict=True):
        odds = math.log(one.share) - math.log(new) if one.share and new else math.inf
        out.append(Candidate(one.entity, sure, one.share, odds, why))
    return tuple(out)


def _calibrated(
    reading: ConfidenceMap, x: Fragment, best: Sequence[_Best], fragments: Mapping[int, Fragment]
) -> list[float]:
    """The probabilities of entities, the most probable first, under a map of pairs.

    An entity's probability is the mean over its fragments' pairs with this one. Maps are fitted to
    probabilities that a posterior reports as possible; smaller ones stay, but below the mapped
    ones.
    """
    likely = [one for one in best if one.share >= _LEAST_ASKED]
    if not likely:
        return [one.share for one in best]
    asked = [one.members[:_MOST_ASKED] for one in likely]
    counts = np.array([len(members) for members in asked])
    told = [x, *(fragments[n] for members in asked for n in members)]
    n = len(told)
    pairs = ReportedPairs(
        np.zeros(n - 1, np.int64),
        np.arange(1, n),
        np.array([one.share for one in likely]).repeat(counts),
        np.array([one.size + 1.0 for one in likely]).repeat(counts),
        np.zeros(n - 1, np.int64),
    )
    each, one = np.arange(n), np.ones(n)
    alone = ReportedEntities(np.ones(n, np.int64), each, one, one, each)
    of_pairs = reading.of_pairs(ClusteringReport(told, alone), pairs)
    read = np.add.reduceat(of_pairs, np.cumsum(counts) - counts) / counts
    rest = [min(one.share, read.min()) for one in best[len(likely) :]]
    out = np.array([*np.minimum.accumulate(read).tolist(), *rest])
    # claims of several entities are read one by one, and only one of them is true
    return list((out / max(out.sum(), 1.0)).tolist())
