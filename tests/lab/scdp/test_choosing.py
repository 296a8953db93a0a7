"""Warm-ups of a chain, and the choice of a model by hidden labelled publications."""

from __future__ import annotations

import numpy as np
import pytest

from kbforge_lab.scdp import annealing
from kbforge_lab.scdp.annealing import warmed_up
from kbforge_lab.scdp.choosing import hidden_in_turn, scored
from kbforge_lab.scdp.references import UNKNOWN, References, references
from kbforge_lab.scdp.run import run
from kbforge_lab.scdp.sampler import SCDP1, Scdp, State, start, sweep

LABELS = np.repeat([4, 7, 2, 9], [3, 4, 5, 6])
TRAIN = np.stack([LABELS, np.arange(18)], axis=1).astype(np.float64)


def test_each_publication_is_hidden_as_often_as_the_others() -> None:
    times = dict.fromkeys([2, 4, 7, 9], 0)
    for data, gold in hidden_in_turn(TRAIN, LABELS, 3):
        for label in np.unique(gold):
            times[int(label)] += 1
        np.testing.assert_array_equal(data.values[data.test][:, 0], gold)
        assert not np.isin(data.values[data.publication != UNKNOWN][:, 0], gold).any()
        assert len(data.values) == 18
        assert data.labelled == 1
    assert times == {2: 3, 4: 3, 7: 3, 9: 3}


def test_the_model_that_finds_hidden_publications_scores_best() -> None:
    models = [Scdp(power=0.5), Scdp(power=1.0)]

    def trial(model: Scdp, data: References) -> np.ndarray:
        right = data.values[data.test][:, 0].astype(np.int64)
        wrong = np.zeros_like(right)
        return np.stack([right if model.power == 1 else wrong, wrong])

    def equal(grouping: np.ndarray, gold: np.ndarray) -> float:
        return float(np.array_equal(grouping, gold))

    assert scored(models, TRAIN, LABELS, 2, trial, equal).tolist() == [0.0, 0.5]


def clusters() -> References:
    rng = np.random.default_rng(3)
    values = rng.normal([[-1.5, 0]] * 9 + [[0, 0]] * 9 + [[1.5, 0]] * 9, [0.1, 1.0])
    return references(values, np.repeat([0, 1, 2], 9), values + np.array([0.75, 0.0]))


def test_a_warm_up_ends_at_the_models_own_power(monkeypatch: pytest.MonkeyPatch) -> None:
    powers: list[float] = []

    def recorded(model: Scdp, data: References, state: State, rng: np.random.Generator) -> State:
        powers.append(model.power)
        return state

    monkeypatch.setattr(annealing, "sweep", recorded)
    data = clusters()
    first = start(data, np.zeros(27, dtype=np.int64))
    model = Scdp(power=0.6)
    assert warmed_up(model, data, first, 12, np.random.default_rng(0)) is first
    assert powers == sorted(powers)
    assert len(powers) == 12
    assert powers[0] < 0.02
    assert powers[-1] == pytest.approx(0.6)


@pytest.mark.parametrize("first", ["together", "apart"])
def test_a_warm_up_forgets_the_start(first: str) -> None:
    data, rng = clusters(), np.random.default_rng(1)
    grouping = np.zeros(27, dtype=np.int64) if first == "together" else np.arange(27)
    state = warmed_up(SCDP1, data, start(data, grouping), 30, rng)
    _, trace = run(SCDP1, data, state, 60, 10, rng)
    right = np.repeat([0, 1, 2], 9)
    same = trace.groupings[:, :, None] == trace.groupings[:, None, :]
    assert same.mean(axis=0)[right[:, None] == right].mean() > 0.8
    assert same.mean(axis=0)[right[:, None] != right].mean() < 0.05


def test_held_publications_keep_their_references() -> None:
    data = clusters()
    state = first = start(data, np.repeat([0, 1, 2], 9))
    rng = np.random.default_rng(2)
    for _ in range(5):
        state = sweep(SCDP1, data, state, rng, held=True)
    np.testing.assert_array_equal(state.publication, first.publication)
    assert (state.means != first.means).all()
    assert not np.array_equal(state.types[state.kind], first.types[first.kind])
