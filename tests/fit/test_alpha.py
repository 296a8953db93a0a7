"""A calibration file is read strictly; alpha from a grouping opens as many entities as it has."""

from __future__ import annotations

import gzip
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from kbforge.contracts import Fragment, Likelihood
from kbforge.errors import KBForgeError, LikelihoodError, UsageError
from kbforge.fit.alpha import (
    DECISIONS,
    MEMBERS,
    OTHERS,
    Calibration,
    alpha_by_grouping,
    fingerprint,
    read_calibration,
    write_calibration,
)
from tests.calibrators.toys import fragments

GOOD = """format = 1
alpha = 2.0
log_alpha = 0.6931471805599453
at_edge = ""
kbforge = "0.1.0"
[objective]
name = "bcubed"
value = 0.5
[likelihood]
name = "bigram"
[likelihood.options]
scale = "25"
[data]
fragments = 3
sha256 = "ab"
"""

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
options = st.dictionaries(
    texts, texts | st.integers(-(2**62), 2**62) | st.booleans() | st.floats(allow_nan=False)
)


@given(
    st.floats(-10, 25), texts, st.floats(allow_nan=False, allow_infinity=False), texts, options
)  # fmt: skip
def test_what_was_written_is_read(tmp_path_factory, log_alpha, objective, value, name, chosen):
    path = str(tmp_path_factory.getbasetemp() / "calibration.toml")
    alpha = math.exp(log_alpha)
    written = Calibration(alpha, objective, value, "low", name, 7, "00", chosen)
    write_calibration(written, path)
    assert read_calibration(path) == written


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("alpha = 2.0\n", "", "alpha: expected a number, got nothing"),
        ("alpha = 2.0\n", "alpha = -1\n", "alpha: expected a number above 0, got -1.0"),
        ("alpha = 2.0\n", "alpha = true\n", "alpha: expected a number, got True"),
        ("alpha = 2.0\n", "alpha = nan\n", "alpha: expected a finite number, got nan"),
        ("alpha = 2.0\n", "alpha = inf\n", "alpha: expected a finite number, got inf"),
        ("alpha = 2.0\n", f"alpha = 1{'0' * 400}\n", "alpha: expected a whole number of 64 bits"),
        ("alpha = 2.0\n", 'alpha = "2"\n', "alpha: expected a number, got 2"),
        ("alpha = 2.0\n", "alpha = 3.0\n", "log_alpha: expected the natural logarithm of alpha"),
        ("format = 1\n", "format = 2\n", "format: expected 1, got 2"),
        ("format = 1\n", "", "format: expected a whole number, got nothing"),
        ("format = 1\n", "format = 1\nextra = 1\n", "extra: expected one of"),
        ('at_edge = ""', 'at_edge = "top"', "at_edge: expected"),
        ("value = 0.5\n", "", "objective.value: expected a number, got nothing"),
        ("[objective]", "[objectives]", "objectives: expected one of"),
        ('name = "bigram"', "name = 3", "likelihood.name: expected a string, got 3"),
        ('scale = "25"', "scale = [1]", "likelihood.options.scale: expected a string, number"),
        ("fragments = 3", "fragments = true", "data.fragments: expected a whole number, got True"),
        ("format = 1\n", "format = \n", "expected TOML"),
        (GOOD, "", "format: expected a whole number, got nothing"),
        (GOOD, "a = " + "[" * 5000, "expected TOML"),
        (GOOD, "format." + "a." * 5000 + "a = 1", "expected TOML"),
        ("format = 1\n", f"format = {'9' * 5000}\n", "expected TOML"),
        (
            "format = 1\n",
            f"format = [0x{'f' * 5000}]\n",
            "format[0]: expected a whole number of 64",
        ),
        (GOOD, GOOD + "[confidence]\nformat = 1\nmore = 2\n", "confidence.more: expected one of"),
    ],
)
def test_bad_files_give_one_sentence_with_the_field(tmp_path, old, new, said):
    require_refused(tmp_path / "c.toml", read_calibration, GOOD, old, new, said)


def require_refused(path, read, good, old, new, said):
    """One sentence about a good file with something replaced names the file."""
    assert old in good
    path.write_text(good)
    assert read(str(path)).options == {"scale": "25"}
    path.write_text(good.replace(old, new))
    with pytest.raises(KBForgeError) as caught:
        read(str(path))
    assert said in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


DAMAGED = r"c\.toml: expected a calibration file, got a damaged or truncated one"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot read"),
        (b"format = 1 # \xff", "expected TOML"),
        (b"#" * (2 << 20), "more than"),
        (gzip.compress(GOOD.encode())[:-9], DAMAGED),
        (b"\x1f\x8bgarbage", DAMAGED),
        (b"\x28\xb5\x2f\xfdx", DAMAGED),
    ],
    ids=["absent", "not UTF-8", "large", "truncated gzip", "no gzip", "no zstd"],
)
def test_unreadable_files(tmp_path, content, said):
    if content is not None:
        (tmp_path / "c.toml").write_bytes(content)
    with pytest.raises(KBForgeError, match=said):
        read_calibration(str(tmp_path / "c.toml"))


def test_fingerprint_sees_labels_and_order():
    one = fragments(["a", "b"], ["x", "y"])
    assert fingerprint(one) == fingerprint(list(one))
    assert fingerprint(one) != fingerprint(one[::-1])
    assert fingerprint(one) != fingerprint(fragments(["a", "b"], ["x", "x"]))


class Agreement(Likelihood):
    """A fragment costs `cost` nats, but for the second and later ones of a name `repeat`."""

    def __init__(self, cost: float = 30.0, repeat: float = 2.0) -> None:
        self.cost, self.repeat = cost, repeat
        self.asked: list[int] = []

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> np.ndarray:
        self.asked += map(len, clusters)
        return np.array([self._marginal(cluster) for cluster in clusters])

    def _marginal(self, cluster: Sequence[Fragment]) -> float:
        names = {fragment.names[0] for fragment in cluster}
        return -self.cost * len(names) - self.repeat * (len(cluster) - len(names))


def file_of(counts: Sequence[int]) -> tuple[list[Fragment], list[list[int]]]:
    """Fragments of entities with a name each, and the grouping by names."""
    names = [f"n{number}" for number, count in enumerate(counts) for _ in range(count)]
    fragments = [Fragment(str(i), {"name": (name,)}) for i, name in enumerate(names)]
    ends = np.cumsum(counts).tolist()
    return fragments, [list(range(end - n, end)) for end, n in zip(ends, counts, strict=True)]


def test_the_log_odds_balance_by_hand():
    """Two fragments of one name and a stranger: every decision can be written down."""
    fragments = [Fragment(str(i), {"name": ("same",)}) for i in range(2)]
    # the one decision joins, and half a decision is taken to open a cluster
    alpha = alpha_by_grouping(Agreement(), fragments, [[0, 1]])
    odds_new = -30.0 - (-2.0)
    assert expit(math.log(alpha) + odds_new) == pytest.approx(0.5)
    apart = alpha_by_grouping(Agreement(), fragments, [[0], [1]])
    assert apart == pytest.approx(alpha), "two fragments do not say more"


def test_alpha_lies_between_what_is_joined_and_what_is_not():
    fragments, by_name = file_of([1] * 10 + [3] * 10 + [8] * 5)
    alpha = alpha_by_grouping(Agreement(), fragments, by_name)
    # joining saves 28 nats and gains at most log 8; joining another name saves nothing
    assert 1 < alpha < math.exp(28)
    halves = [part for c in by_name for part in (c[::2], c[1::2]) if part]
    finer = alpha_by_grouping(Agreement(), fragments, halves)
    assert finer > 100 * alpha, "more entities, a larger alpha"


def test_the_same_whatever_labels_order_of_clusters_and_time():
    fragments, grouping = file_of([1, 2, 3, 4, 5, 6, 7])
    labelled = [replace(f, label=f"other{f.id}") for f in fragments]
    alpha = alpha_by_grouping(Agreement(), fragments, grouping)
    assert alpha_by_grouping(Agreement(), labelled, grouping) == alpha
    assert alpha_by_grouping(Agreement(), fragments, grouping) == alpha


def test_little_is_scored_of_a_large_file():
    fragments, grouping = file_of([100] * 20)
    likelihood = Agreement()
    alpha_by_grouping(likelihood, fragments, grouping)
    assert len(likelihood.asked) <= DECISIONS * (1 + 2 * (1 + OTHERS))
    assert max(likelihood.asked) == MEMBERS + 1


def test_nothing_in_common_with_anything():
    fragments = [Fragment(str(i), {"name": (f"n{i}",)}) for i in range(30)]
    alpha = alpha_by_grouping(Agreement(), fragments, [[i] for i in range(30)])
    assert 0 < alpha < math.inf
    equal = [Fragment(str(i), {"name": ("same",)}) for i in range(30)]
    alpha = alpha_by_grouping(Agreement(), equal, [list(range(30))])
    assert 0 < alpha < math.exp(30)
    assert alpha_by_grouping(Agreement(), equal[:1], [[0]]) == Agreement.default_alpha


@pytest.mark.parametrize("grouping", [[[0]], [[0, 1], [1]], [[0, 1], [7]], []])
def test_what_is_no_grouping_is_refused(grouping):
    fragments, _ = file_of([2])
    with pytest.raises(UsageError, match="expected each fragment in one cluster"):
        alpha_by_grouping(Agreement(), fragments, grouping)


def test_what_cannot_be_at_all_is_refused():
    fragments, grouping = file_of([3, 3])
    with np.errstate(invalid="ignore"), pytest.raises(LikelihoodError, match="no finite place"):
        alpha_by_grouping(Agreement(cost=math.inf), fragments, grouping)
