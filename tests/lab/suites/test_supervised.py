"""The suite draws what the paper says, and its groupers do what they are called."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from kbforge.contracts import Fragment
from kbforge.errors import KBForgeError, UsageError
from kbforge.evaluation.scores import compare
from kbforge_lab.scdp.gaussian import Near
from kbforge_lab.scdp.sampler import SCDP1, SCDP3, UNTRAINED
from kbforge_lab.suites.groupers import (
    Binary,
    Chain,
    Chosen,
    Coarse,
    Fine,
    KMeans,
    XingKMeans,
    drawn_pairs,
    first_grouping,
    hidden_labels,
    rows_of,
)
from kbforge_lab.suites.plan import Grouper
from kbforge_lab.suites.supervised import Digits, SupervisedSuite, drawn

STARTS = ("together", "apart", "twenty")


def images() -> tuple[np.ndarray, np.ndarray]:
    """Four hundred of each digit, told apart by one pixel, and a pixel that is always 0."""
    target = np.repeat(np.arange(10), 400)
    noise = np.random.default_rng(0).normal(size=(len(target), 2))
    return np.column_stack([10.0 * target, noise, np.zeros(len(target))]), target


def easy() -> Digits:
    return drawn(*images(), (10, 20), np.random.default_rng(1))


def test_thirty_to_three_hundred_of_each_digit_are_drawn():
    found = drawn(*images(), (30, 300), np.random.default_rng(1))
    assert {f.label for f in found.examples} == set("13589")
    assert {f.label for f in found.fragments} == set("02467")
    everything = [*found.examples, *found.fragments]
    counts = np.bincount([int(str(f.label)) for f in everything])
    assert counts.min() >= 30
    assert counts.max() <= 300
    assert len(set(counts)) > 5
    values = rows_of(everything)
    assert values.shape[1] == 3  # the constant pixel is gone
    np.testing.assert_allclose(values.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(values.std(axis=0), 1)


def f1(grouper: Grouper, found: Digits) -> float:
    """The mean over the groupings; the labels of what is grouped are not the grouper's to see."""
    made = grouper.group(found.examples, found.fragments, 2)
    gold = [f.label for f in found.fragments]
    return float(np.mean([compare(one, gold).pairwise_f1 for one in made.groupings]))


@pytest.mark.parametrize("first", STARTS)
def test_a_chain_finds_digits_that_one_pixel_tells_apart(first):
    many = drawn(*images(), (100, 200), np.random.default_rng(1))
    found = Digits(many.examples, many.fragments[::8])
    assert f1(Chain(SCDP1, first, 60), found) > 0.9  # type: ignore[arg-type]


def test_without_examples_a_chain_does_not_look_at_them():
    found = easy()
    others = tuple(Fragment(f.id, {}, (9.0, -9.0, 9.0), "x") for f in found.examples)
    chain = Chain(UNTRAINED, "twenty", 10, trained=False)
    one, other = (
        chain.group(examples, found.fragments, 3) for examples in (found.examples, others)
    )
    assert one == other


def test_chains_start_in_turns():
    found = easy()
    begun = {first: Chain(SCDP1, first, 10) for first in ("turns", "twenty", "apart", "together")}
    for seed, first in ((0, "together"), (1, "apart"), (2, "twenty"), (3, "together")):
        turn, same, *others = (
            begun[name].group(found.examples, found.fragments, seed)
            for name in ("turns", first, *({*STARTS} - {first}))
        )
        assert turn == same
        assert turn not in others


@pytest.mark.parametrize("first", STARTS)
def test_no_cluster_of_a_first_grouping_is_empty(first):
    found = first_grouping(first, 30, np.random.default_rng(0))  # type: ignore[arg-type]
    assert set(found) == set(range(found.max() + 1))


def test_what_learns_beats_what_does_not_where_most_features_are_noise():
    pytest.importorskip("sklearn")
    found = easy()
    assert f1(Fine(), found) == 0
    gold = [f.label for f in found.fragments]
    assert f1(Coarse(), found) == compare([0] * len(gold), gold).pairwise_f1
    plain = f1(KMeans(), found)
    assert f1(XingKMeans(), found) > max(0.9, plain)
    assert f1(XingKMeans(full=True), found) > max(0.9, plain)
    assert f1(XingKMeans(stopped=True), found) > max(0.9, plain)
    assert f1(Binary(pairs=600, folds=2, judged=40), found) > max(0.8, plain)


def test_what_is_tuned_does_not_see_the_labels_that_judge():
    labels = np.repeat(np.arange(5), 4)
    for left, hidden in hidden_labels(labels, 4, np.random.default_rng(0)):
        assert not set(labels[left]) & set(labels[hidden])
        assert len(set(labels[hidden])) == 2
        assert (left ^ hidden).all()
    with pytest.raises(KBForgeError, match="at least 4 labels among the examples, got 3"):
        list(hidden_labels(labels[:12], 4, np.random.default_rng(0)))


def test_half_of_the_pairs_share_a_label():
    rows, labels = np.arange(20.0)[:, None], np.repeat(np.arange(5), 4)
    differences, alike = drawn_pairs(rows, labels, 40, np.random.default_rng(0))
    assert (len(alike), alike.sum()) == (40, 20)
    assert (differences[alike] <= 3).all()


def test_vectors_of_several_lengths_are_refused():
    fragments = [Fragment("a", {}, (1.0, 2.0)), Fragment("b", {}, (1.0,))]
    with pytest.raises(KBForgeError, match=r'fragment "b": expected a vector of 2 .* got 1'):
        rows_of(fragments)
    with pytest.raises(KBForgeError, match=r'fragment "c": expected a vector of 1 .* got 0'):
        rows_of([Fragment("c", {"name": ("x",)})])


def test_without_scikit_learn_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(KBForgeError, match=r"needs scikit-learn.* pip install .*\[supervised\]'$"):
        SupervisedSuite().plan()
    with pytest.raises(KBForgeError, match="needs scikit-learn"):
        KMeans().group([], [Fragment("a", {}, (1.0,), "x")], 0)


def test_the_postal_service_has_a_task_where_its_file_is(monkeypatch, tmp_path):
    pytest.importorskip("sklearn")
    h5py = pytest.importorskip("h5py")
    monkeypatch.setenv("KBFORGE_DATA", str(tmp_path))
    plan = SupervisedSuite().plan()
    assert [task.name for task in plan.tasks] == ["digits"]
    assert plan.notes == ("not in the folder that KBFORGE_DATA names: usps/usps.h5",)
    (tmp_path / "usps").mkdir()
    (tmp_path / "usps/usps.h5").write_bytes(b"no")
    with pytest.raises(KBForgeError, match="does not hold the digits"):
        SupervisedSuite().plan()
    with h5py.File(tmp_path / "usps/usps.h5", "w") as file:
        rng = np.random.default_rng(0)
        file["train/data"] = rng.random((400, 256)).astype(np.float32)
        file["train/target"] = np.repeat(np.arange(10), 40)
    plan = SupervisedSuite().plan()
    assert [task.name for task in plan.tasks] == ["digits", "usps"]
    usps = plan.tasks[1]
    assert len(rows_of(usps.fragments)[0]) == 64
    assert 150 <= len(usps.examples) <= 200
    assert [task.name for task in SupervisedSuite().plan(quick=True).tasks] == ["digits"]


def test_the_paper_stands_beside_every_method():
    pytest.importorskip("sklearn")
    plan = SupervisedSuite(start="apart", chains=3).plan()
    assert {method.name for method in plan.methods} == {name for _, name in plan.published}
    chains = [m.grouper for m in plan.methods if isinstance(m.grouper, Chain)]
    assert [chain.trained for chain in chains] == [False, True, True, True]
    assert {chain.first for chain in chains} == {"apart"}
    assert plan.published["digits", "SCDP-3"].f1 == (0.756, None)
    assert plan.published["digits", "Xing-K (full)"].f1 == (0.608, None)
    assert max(method.shuffles or plan.shuffles for method in plan.methods) == 3


def test_settings_are_chosen_by_hidden_examples_alone():
    """Whatever is to be grouped, and however a chain is seeded, the choice is the same."""
    found = easy()
    few, many = (replace(SCDP1, power=power) for power in (1e-3, 1.0))
    for seed, fragments in ((0, found.fragments), (1, found.fragments[:5])):
        best = Chain(many, "twenty", 40).group(found.examples, fragments, seed)
        for models in ((few, many), (many, few)):  # with next to no evidence all is one cluster
            assert Chosen(models, "twenty", 40).group(found.examples, fragments, seed) == best


def test_a_chosen_rate_is_for_as_many_labels_as_there_are():
    found = easy()
    before = replace(SCDP3, separation=Near(0.5))
    chain = Chosen((before,), "twenty", 8).group(found.examples, found.fragments, 1)
    in_earnest = replace(SCDP3, separation=Near(0.5 * 2 / 5))
    assert chain == Chain(in_earnest, "twenty", 8).group(found.examples, found.fragments, 1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"chains": 0}, "chains must be at least 1, got 0"),
        ({"sweeps": 9}, "sweeps must be at least 10"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, words):
    with pytest.raises(UsageError, match=words):
        SupervisedSuite(**options)


def test_the_coarse_row_has_the_harmonic_mean_that_the_paper_prints():
    gold = np.repeat([0, 1], [30, 70]).tolist()
    found = compare([0] * 100, gold)
    assert found.pairwise_recall == 1
    assert found.pairwise_precision == pytest.approx((30 * 29 + 70 * 69) / (100 * 99))
    assert found.pairwise_f1 == pytest.approx(2 / (1 / found.pairwise_precision + 1))


def test_the_bench_from_end_to_end(program, tmp_path):
    pytest.importorskip("sklearn")
    plan = ("supervised", "--quick", "--methods", "coarse,k-means,scdp-1")
    job = ("lab", "bench", *plan, "-o", tmp_path)
    ran = program(*job)
    assert ran.code == 0, ran.err
    assert b"paper's F" in ran.out
    again = program(*job, "--json")
    table = {line["method"]: line for line in again.json["table"]}
    assert (again.json["runs"], again.json["finished_before"]) == (5, 5)
    assert table["Coarse"]["pairwise_recall"] == 1
    assert table["K-means"]["pairwise_f1"] > table["Coarse"]["pairwise_f1"]
    assert table["SCDP-1"]["r_hat"] > 0 < table["SCDP-1"]["effective_size"]
    assert "R-hat is of J" in (tmp_path / "report.md").read_text()
