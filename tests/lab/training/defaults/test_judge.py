"""The judge learns from files in other shapes; they count neither in its figures nor its margin."""

import numpy as np
import pytest

from kbforge.fit.hypotheses import NAMES, Hypothesis
from kbforge.fit.statistics import ATTRIBUTES, EXPECTED_F1, LOG_FRAGMENTS
from kbforge_lab.training.defaults import judge
from kbforge_lab.training.defaults.judge import JudgedFile, train_each

pytest.importorskip("lightgbm")
LABELS = np.arange(3)
STATISTICS = (EXPECTED_F1, ATTRIBUTES, LOG_FRAGMENTS)


def judged(family: str, name: str, exact: float, other: float, attributes: float) -> JudgedFile:
    """A file of two hypotheses; how many attributes a fragment has tells which is better."""
    found = (Hypothesis(NAMES, 0.0, LABELS), Hypothesis("attributes", 1.0, LABELS, 1.0))
    statistics = np.array([[np.nan, attributes, 5.0]] * 2)
    return JudgedFile(family, name, found, STATISTICS, statistics, np.array([exact, other]))


def test_other_shapes_train_and_do_not_count():
    families = ("a", "b", "c")
    files = [
        judged(family, f"plain-{k}", 0.8, 0.7, 0.5 + 0.01 * k)
        for family in families
        for k in range(40)
    ]
    shaped = [
        judged(family, f"namesakes-{k}", 0.2, 0.9, 1.5 + 0.01 * k)
        for family in families
        for k in range(20)
    ]
    trained = train_each([*files, *shaped], frozenset(families))
    assert set(trained.by_family) == {*families, "namesakes"}
    for _, scores in trained.margins:
        assert scores.exact == pytest.approx(0.8)
        assert scores.chosen == pytest.approx(0.8)
    assert trained.by_family["namesakes"].chosen == pytest.approx(0.9)
    plain = train_each(files, frozenset(families)).without["a"]
    assert judge.predicted(plain, shaped[0])[1] < 0 < judge.predicted(trained.ships, shaped[0])[1]
