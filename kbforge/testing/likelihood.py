"""Tests of the laws of likelihoods, and of what they save."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import orjson
import pytest

from kbforge.contracts import (
    CandidateIndex,
    ConjugateLikelihood,
    Fragment,
    LearnedState,
    Likelihood,
    LiveClusters,
)
from kbforge.errors import ModelError
from kbforge.registry.options import option_parameters
from kbforge.testing import examples
from kbforge.testing.contract import Contract

_STEPS = 60
_MOST_CLUSTERS = 10


class LikelihoodContract(Contract):
    """Exchangeable, deterministic, never NaN, independent of labels, with all stated abilities."""

    kind: ClassVar[str] = "likelihoods"
    signed: ClassVar[Collection[str]] = frozenset()
    """Arrays of integers in its saved state that may be below 0."""

    def fragments(self) -> Sequence[Fragment]:
        """At least eight fragments that the model can read; override for other attributes."""
        return examples.fragments()

    def fitted(self) -> Any:
        """The likelihood, fitted to the fragments if it is fitted."""
        likelihood = self.make()
        likelihood.fit(self.fragments())
        return likelihood

    def clusters(self, seed: int = 1) -> list[list[Fragment]]:
        """Clusters of all sizes, with a repeated fragment among them."""
        rng = np.random.default_rng(seed)
        items = list(self.fragments())
        sizes = [*range(len(items) + 1), 2, 3]
        drawn = [[items[i] for i in rng.permutation(len(items))[:size]] for size in sizes]
        return [*drawn, [items[0], items[0], items[1]]]

    def test_one_number_a_cluster(self) -> None:
        clusters = self.clusters()
        values = self.fitted().log_marginal(clusters)
        assert isinstance(values, np.ndarray)
        assert (values.shape, values.dtype) == ((len(clusters),), np.dtype(np.float64))
        assert self.fitted().log_marginal([]).shape == (0,)

    def test_no_fragments_have_probability_one(self) -> None:
        assert self.fitted().log_marginal([[]]).tolist() == [0.0]

    def test_exchangeable(self) -> None:
        likelihood, rng = self.fitted(), np.random.default_rng(2)
        clusters = self.clusters()
        shuffled = [[c[i] for i in rng.permutation(len(c))] for c in clusters]
        np.testing.assert_allclose(
            likelihood.log_marginal(shuffled), likelihood.log_marginal(clusters), rtol=1e-9
        )

    def test_deterministic(self) -> None:
        likelihood, clusters = self.fitted(), self.clusters()
        first = likelihood.log_marginal(clusters).tolist()
        assert likelihood.log_marginal(clusters).tolist() == first
        assert self.fitted().log_marginal(clusters).tolist() == first

    def test_never_nan_nor_certain_beyond_measure(self) -> None:
        values = self.fitted().log_marginal(self.clusters())
        assert not np.isnan(values).any()
        assert not np.isposinf(values).any()

    def test_labels_are_not_read(self) -> None:
        clusters = self.clusters()
        blind = [examples.without_gold(cluster) for cluster in clusters]
        likelihood = self.fitted()
        assert likelihood.log_marginal(blind).tolist() == likelihood.log_marginal(clusters).tolist()

    def test_what_it_states_is_there(self) -> None:
        """The attributes of the likelihood and of its tables that a run reads."""
        likelihood = self.fitted()
        assert isinstance(likelihood, Likelihood)
        assert np.isfinite(likelihood.default_alpha)
        assert likelihood.default_alpha > 0
        assert likelihood.surrogate is None or isinstance(likelihood.surrogate, ConjugateLikelihood)
        assert likelihood.index is None or isinstance(likelihood.index, CandidateIndex)
        options = option_parameters(type(likelihood))
        assert likelihood.takes_device == ("device" in options)
        assert likelihood.takes_link == ("link" in options)
        if isinstance(likelihood, ConjugateLikelihood):
            assert isinstance(likelihood.live_clusters(), LiveClusters)

    def test_what_it_learned_is_taken_up_to_the_last_bit(self) -> None:
        """Also for fragments that it was not fitted to."""
        items, original = list(self.fragments()), self.make()
        if not original.keeps:
            pytest.skip("it does not keep what it learned")
        original.fit(items[:-3])
        marginal = original.log_marginal(self.clusters())
        kept = stored(original.dump())
        other = self.make()
        other.load(kept)
        assert other.default_alpha == original.default_alpha
        assert other.log_marginal(self.clusters()).tolist() == marginal.tolist()
        if isinstance(original, ConjugateLikelihood):
            assert _life(other, items) == _life(original, items)
        if original.index is not None:
            for item in items[::-1]:
                assert list(other.index.keys(item)) == list(original.index.keys(item))
        assert same(other.dump(), kept)
        assert same(original.dump(), kept)

    def test_nothing_damaged_is_taken_up(self) -> None:
        original = self.fitted()
        if not original.keeps:
            pytest.skip("it does not keep what it learned")
        kept = original.dump()
        assert not_refused(lambda wrong: self.make().load(wrong), kept, self.signed) == []

    def test_features_are_laid_end_to_end(self) -> None:
        """Distinct features per fragment, not empty, and independent of other fragments."""
        likelihood, items = self.fitted(), list(self.fragments())
        features = likelihood.features(items)
        if features is None:
            pytest.skip("it does not say what fragments are compared by")
        starts, names, values = features
        assert (starts[0], starts[-1], len(starts)) == (0, len(names), len(items) + 1)
        assert len(names) == len(values)
        assert np.isfinite(values).all()
        assert (values != 0).all()
        for i, item in enumerate(examples.without_gold(items)):
            own = slice(int(starts[i]), int(starts[i + 1]))
            assert len(set(names[own].tolist())) == own.stop - own.start
            _, alone, much = likelihood.features([item])
            found = dict(zip(alone.tolist(), much.tolist(), strict=True))
            assert found == dict(zip(names[own].tolist(), values[own].tolist(), strict=True))

    def test_what_shares_no_attribute_gains_nothing(self) -> None:
        """Also for attributes that the model was not fitted to, and clusters of any size."""
        likelihood = self.fitted()
        for cluster, x in examples.apart(self.fragments()):
            try:
                both, without, alone = likelihood.log_marginal([[*cluster, x], cluster, [x]])
            except Exception:  # it cannot read one of them, and says so
                continue
            if np.isfinite(without + alone):
                assert both - without - alone <= 1e-8, (cluster, x)

    def test_contributions_sum_to_the_gain_of_joining(self) -> None:
        likelihood, items = self.fitted(), list(self.fragments())
        if not likelihood.explains:
            pytest.skip("it does not say what each attribute contributes")
        for size in (1, 3, len(items) - 1):
            x, cluster = items[-1], items[:size]
            both, without, alone = likelihood.log_marginal([[*cluster, x], cluster, [x]])
            said = likelihood.contributions(x, cluster)
            expected = pytest.approx(both - without - alone, rel=1e-8, abs=1e-8)
            assert sum(said.values()) == expected
            assert set(said) <= set(x.properties)

    def test_a_fragment_that_cannot_be_read_leaves_the_table_as_it_was(self) -> None:
        """A fragment without readable content is scored as such, or refused without a trace."""
        likelihood, items = self._conjugate(), list(self.fragments())
        table, plain = likelihood.live_clusters(), likelihood.live_clusters()
        for slot, item in enumerate(items):
            x, y = table.encode(item), plain.encode(item)
            with contextlib.suppress(Exception):
                table.log_predictive(table.encode(_unreadable(item)), slot)
            assert table.log_predictive(x, slot).tolist() == plain.log_predictive(y, slot).tolist()
            for each, seen in ((table, x), (plain, y)):
                each.extend(seen, np.array([slot - 1]), np.array([slot]))

    def test_predictives_sum_to_the_marginal_in_any_order(self) -> None:
        likelihood, items = self._conjugate(), list(self.fragments())
        rng = np.random.default_rng(3)
        marginal = float(likelihood.log_marginal([items])[0])
        for _ in range(3):
            table, total, slot = likelihood.live_clusters(), 0.0, -1
            for i in rng.permutation(len(items)):
                x = table.encode(items[i])
                if slot < 0:
                    total += float(table.log_predictive_new(x))
                else:
                    total += float(table.log_predictive(x, slot + 1)[slot])
                child = 1 if slot == 0 else 0
                table.extend(x, np.array([slot]), np.array([child]))
                if slot >= 0:
                    table.release(np.array([slot]))
                slot = child
            assert total == pytest.approx(marginal, rel=1e-8, abs=1e-8)

    def test_live_clusters_branch_release_and_reuse_slots(self) -> None:
        """Random operations of a table, compared with L at every step and every live slot."""
        likelihood, items = self._conjugate(), list(self.fragments())
        rng = np.random.default_rng(4)
        table = likelihood.live_clusters()
        live: dict[int, list[Fragment]] = {}
        free: list[int] = []
        slots = 0
        for _ in range(_STEPS):
            fragment = items[rng.integers(len(items))]
            x = table.encode(fragment)
            _compare(likelihood, table, x, fragment, live, slots)
            parents = [-1, *rng.permutation(sorted(live))[:3].tolist()]
            children = []
            for parent in parents:
                if free:
                    child = free.pop(int(rng.integers(len(free))))
                else:
                    child, slots = slots, slots + 1
                children.append(child)
                live[child] = [*live.get(parent, []), fragment]
            table.extend(x, np.array(parents), np.array(children))
            drop = rng.permutation(sorted(live))[_MOST_CLUSTERS // 2 :].tolist()
            if len(live) > _MOST_CLUSTERS:
                table.release(np.array(drop))
                for slot in drop:
                    del live[slot]
                free += drop
        assert slots < _STEPS, "the test itself must have reused slots"

    def test_live_clusters_do_not_read_labels(self) -> None:
        likelihood, items = self._conjugate(), list(self.fragments())
        table, blind = likelihood.live_clusters(), likelihood.live_clusters()
        for i, (item, cleared) in enumerate(zip(items, examples.without_gold(items), strict=True)):
            x, y = table.encode(item), blind.encode(cleared)
            assert table.log_predictive(x, i).tolist() == blind.log_predictive(y, i).tolist()
            parent, child = np.array([i - 1]), np.array([i])
            table.extend(x, parent, child)
            blind.extend(y, parent, child)

    def test_a_few_clusters_score_as_among_all(self) -> None:
        """Any live slots in any order, bit for bit, even before all were ever scored."""
        likelihood, items = self._conjugate(), list(self.fragments())
        table = likelihood.live_clusters()
        rng = np.random.default_rng(7)
        live: list[int] = []
        for slot, item in enumerate(items):
            x = table.encode(item)
            for some in (live[::-1], live[: slot // 2], live[:1] * 2, []):
                few = np.array(table.log_predictive_of(x, np.array(some, dtype=np.int64)))
                assert (few.shape, few.dtype) == ((len(some),), np.dtype(np.float64))
                assert few.tolist() == table.log_predictive(x, slot)[some].tolist()
            parent = int(rng.choice([-1, *live]))
            table.extend(x, np.array([parent]), np.array([slot]))
            live.append(slot)
            if slot % 3 == 2:
                table.release(np.array([live.pop(int(rng.integers(len(live))))]))

    def _conjugate(self) -> Any:
        likelihood = self.fitted()
        if not isinstance(likelihood, ConjugateLikelihood):
            pytest.skip("a black box: it has no live_clusters()")
        return likelihood


def _life(likelihood: ConjugateLikelihood, items: Sequence[Fragment]) -> list[list[float]]:
    """A table's scores while it fills: a fragment opens a cluster, or joins the previous one."""
    table, said = likelihood.live_clusters(), list[list[float]]()
    for slot, item in enumerate(items):
        x = table.encode(item)
        said.append([*table.log_predictive(x, slot).tolist(), table.log_predictive_new(x)])
        table.extend(x, np.array([slot - 1 if slot % 3 else -1]), np.array([slot]))
    return said


def _unreadable(fragment: Fragment) -> Fragment:
    """One with a vector of a different length, and properties with unknown attributes."""
    vector = None if fragment.vector is None else (*fragment.vector, 1.0)
    return Fragment(fragment.id, {"unheard of": ("nothing",)}, vector)


def _compare(
    likelihood: ConjugateLikelihood,
    table: Any,
    x: Any,
    fragment: Fragment,
    live: dict[int, list[Fragment]],
    slots: int,
) -> None:
    order = sorted(live)
    before = likelihood.log_marginal([live[slot] for slot in order])
    after = likelihood.log_marginal([[*live[slot], fragment] for slot in order])
    predictive = table.log_predictive(x, slots)
    assert predictive.shape == (slots,)
    assert not np.isnan(predictive).any()
    possible = np.isfinite(before)
    # a difference of two marginals carries the rounding of both
    scale = 1e-9 * np.maximum(1.0, np.abs(before[possible]))
    error = np.abs(predictive[order][possible] - (after - before)[possible])
    assert (error <= 1e-8 + scale).all()
    alone = float(likelihood.log_marginal([[fragment]])[0])
    assert float(table.log_predictive_new(x)) == pytest.approx(alone, rel=1e-9, abs=1e-9)


def stored(kept: LearnedState) -> LearnedState:
    """The state as a store returns it: values through JSON, arrays as read-only bytes."""
    arrays = {
        name: np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)
        for name, array in kept.arrays.items()
    }
    return LearnedState(orjson.loads(orjson.dumps(kept.values)), arrays)


def same(one: LearnedState, other: LearnedState) -> bool:
    """Whether two states are equal, bit for bit."""
    if one.values != other.values or one.arrays.keys() != other.arrays.keys():
        return False
    return all(
        (array.dtype, array.shape, array.tobytes())
        == (other.arrays[name].dtype, other.arrays[name].shape, other.arrays[name].tobytes())
        for name, array in one.arrays.items()
    )


def not_refused(
    load: Callable[[LearnedState], object], kept: LearnedState, signed: Collection[str] = ()
) -> list[str]:
    """Defects of a saved state that cause no error of one line.

    `load` must refuse them, `kept` is valid, and `signed` names the arrays of integers that may be
    below 0.
    """
    out = []
    for how, wrong in damaged(stored(kept), signed):
        try:
            load(wrong)
        except ModelError as error:
            if "\n" not in str(error):
                continue
        out.append(how)
    return out


def damaged(kept: LearnedState, signed: Collection[str] = ()) -> Iterator[tuple[str, LearnedState]]:
    """The same state with one defect each, and its description; `signed` as in `not_refused`."""
    for name, array in kept.arrays.items():
        rest = {other: held for other, held in kept.arrays.items() if other != name}
        yield f"{name} is missing", LearnedState(kept.values, rest)
        for how, wrong in _wrong(array, name in signed):
            yield f"{name} {how}", LearnedState(kept.values, {**rest, name: wrong})
    for place in _places(kept.values, {name.rpartition(".")[0] for name in kept.arrays}):
        said = ".".join(place)
        yield f"{said} is missing", LearnedState(_with(kept.values, place), kept.arrays)
        for wrong in ({"": None}, None):
            yield (
                f"{said} is {wrong}",
                LearnedState(_with(kept.values, place, [wrong]), kept.arrays),
            )


def _wrong(array: Any, signed: bool) -> Iterator[tuple[str, Any]]:
    yield "has numbers of a different type", array.astype(np.complex64)
    yield "has a different shape", array[None, None]
    yield "is a list", array.tolist()
    if array.dtype.kind == "f" and array.size:
        for value in (np.nan, np.inf):
            spoilt = array.copy()
            spoilt.flat[-1] = value
            yield f"holds {value}", spoilt
    if array.dtype.kind == "i" and array.size and not signed:
        spoilt = array.copy()
        spoilt.flat[0] = -7
        yield "holds a number below 0", spoilt


def _places(values: Mapping[str, Any], parts: set[str]) -> Iterator[tuple[str, ...]]:
    """The paths to all values, and to those of parts."""
    for name, value in values.items():
        yield (name,)
        if name in parts and isinstance(value, dict):
            for way in _places(value, {p.removeprefix(f"{name}.") for p in parts}):
                yield (name, *way)


def _with(
    values: Mapping[str, Any], place: tuple[str, ...], wrong: Sequence[Any] = ()
) -> dict[str, Any]:
    """The values with one of them replaced, or left out."""
    name, *rest = place
    out = dict(values)
    if rest:
        out[name] = _with(out[name], tuple(rest), wrong)
    else:
        del out[name]
        if wrong:
            out[name] = wrong[0]
    return out
