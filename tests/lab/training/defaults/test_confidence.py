"""The maps that ship are made by one command: claims kept, fitted without a family, and judged."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest

from kbforge.fit.confidence import CONFIDENCE_FILE, shipped_confidence
from kbforge.fit.description import FileContext
from kbforge_lab.training.defaults import confidence
from kbforge_lab.training.defaults.families import Family

pytest.importorskip("lightgbm")


def write(path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lines = []
    for k in range(90):
        name = "".join(rng.choice(list("abcdefgh"), 8))
        for j in range(int(rng.integers(1, 4))):
            said = name if rng.random() < 0.7 else f"{name[:5]}{'xyz'[j]}"
            lines.append({"id": f"{k}-{j}", "properties": {"name": [said]}, "label": str(k)})
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))


@pytest.fixture
def families(tmp_path, monkeypatch):
    found = tuple(Family(name, (f"{name}.jsonl",), name != "third") for name in
                  ("first", "second", "third"))  # fmt: skip
    for seed, family in enumerate(found):
        write(tmp_path / family.files[0], seed)
    monkeypatch.setattr(confidence, "FAMILIES", found)
    return found


def known(family, file, true, run=None, chosen=None, drawn=None):
    n = len(true)
    return confidence.KnownClaims(
        np.zeros((n, 3)), np.full(n, 0.5), np.arange(n), np.array(true, bool),
        np.array(family, object), np.array(file), np.array(run or ["bigram"] * n, object),
        np.array(chosen or [True] * n),
        np.array(drawn or [confidence.RESAMPLED] * n, object),
    )  # fmt: skip


def test_families_weigh_the_same_and_so_do_their_files():
    claims = known(["a", "a", "a", "a", "b"], [0, 0, 0, 1, 7], [True] * 5)
    found = confidence.weights(claims)
    assert found.sum() == pytest.approx(5)
    assert found.tolist() == pytest.approx([5 / 12] * 3 + [5 / 4, 5 / 2])


def test_ways_to_draw_files_of_a_family_weigh_the_same():
    drawn = [confidence.RESAMPLED, confidence.RESAMPLED, confidence.WHOLE, confidence.WHOLE]
    claims = known(["a", "a", "a", "b"], [0, 1, 2, 3], [True] * 4, drawn=drawn)
    assert confidence.weights(claims).tolist() == pytest.approx([1 / 2, 1 / 2, 1, 2])


def test_the_default_weighs_as_much_as_all_else_that_was_run():
    runs = ["bigram", "pairs", "pairs", "names", "attributes"]
    claims = known(["a"] * 5, [0] * 5, [True] * 5, runs, [True, False, False, False, False])
    found = confidence.weights(claims)
    assert found.tolist() == pytest.approx([2, 1 / 2, 1 / 2, 1, 1])


def test_maps_learn_to_do_without_the_judge():
    features = confidence.ENTITY_FEATURES
    n = 400
    claims = confidence.KnownClaims(
        np.zeros((n, len(features))), np.full(n, 0.5), np.arange(n), np.ones(n, bool),
        np.full(n, "a", object), np.arange(n), np.full(n, "names", object), np.ones(n, bool),
        np.full(n, confidence.WHOLE, object),
    )  # fmt: skip
    found = confidence._forgetful(claims)
    lacks = {name: np.isnan(found.rows[:, k]).mean() for k, name in enumerate(features)}
    assert 0.3 < lacks["votes"] < 0.5
    assert 0.08 < lacks["predicted"] < 0.22
    assert not any(lacks[name] for name in ("reported", "odds_sum"))
    assert not np.isnan(claims.rows).any()


def test_the_judgement_by_hand():
    claims = known(["a"] * 4, [0] * 4, [True, True, True, False])
    found = confidence.judged(claims, np.array([0.75] * 4))
    assert found["raw"] == pytest.approx(0.25)
    assert found["calibrated"] == pytest.approx(0)
    assert found["raw_log"] == pytest.approx(np.log(2))
    assert found["log"] == pytest.approx(-(3 * np.log(0.75) + np.log(0.25)) / 4)
    assert (found["mean"], found["spread"]) == (0.75, 0)
    assert (found["surest"], found["surest_true"]) == (0.75, 0.75)  # all are equally sure
    found = confidence.judged(claims, np.array([0.1, 0.2, 0.3, 0.9]))
    assert (found["surest"], found["surest_true"]) == (0.9, 0)


@pytest.mark.parametrize(
    ("reported", "calibrated", "expected"), [(0.9, 0.5, 0.8), (0.5, 0.9, 0.0), (0.98, 0.7, 0.7)]
)
def test_the_report_gets_the_share_that_it_earns(reported, calibrated, expected):
    claims = known(["a"] * 10, [0] * 10, [True] * 9 + [False])
    claims = replace(claims, probability=np.full(10, reported))
    assert confidence.share_of_report(claims, np.full(10, calibrated)) == pytest.approx(expected)


def test_what_the_default_did_not_take_says_nothing_of_the_report():
    runs, chosen = ["bigram"] * 10 + ["names"] * 10, [True] * 10 + [False] * 10
    claims = known(["a"] * 20, [0] * 20, [True] * 10 + [False] * 10, runs, chosen)
    claims = replace(claims, probability=np.full(20, 0.9))
    assert confidence.share_of_report(claims, np.full(20, 0.5)) == pytest.approx(0.8)


def test_one_command_makes_them_and_goes_on_where_it_was(tmp_path, families, capsys):
    out, claims = tmp_path / "out", tmp_path / "claims"
    line = ["--data", str(tmp_path), "--claims", str(claims), "--out", str(out), "--count", "2"]
    confidence.main(line)
    said = capsys.readouterr().out
    # two resampled files of each family, four larger ones, and its own
    assert said.count(".npz\n") == 21
    assert [
        said.count(f"{kind}, {drawn}: ") for kind in confidence.KINDS for drawn in confidence.DRAWN
    ] == (
        [4] * 6  # the mean too
    )
    found = shipped_confidence(FileContext("pairs"), str(out))
    assert found.likelihoods == ("names", "attributes", "pairs")
    assert 0 <= found.share <= 0.8
    without = shipped_confidence(FileContext("pairs"), str(out / "without" / "first"))
    assert (out / "without/first" / CONFIDENCE_FILE).read_bytes().count(b'"second"') == 1
    assert b'"third"' not in (out / CONFIDENCE_FILE).read_bytes()
    assert without.entities.to_bytes() != found.entities.to_bytes()
    # nothing of the third family is in what ships
    third = shipped_confidence(FileContext("pairs"), str(out / "without" / "third"))
    assert third.entities.to_bytes() == found.entities.to_bytes()
    before = {path: path.read_bytes() for path in sorted(out.rglob(CONFIDENCE_FILE))}
    next(iter(sorted(claims.rglob("*.npz")))).unlink()
    confidence.main(line)
    assert capsys.readouterr().out.count(".npz\n") == 1
    assert {path: path.read_bytes() for path in sorted(out.rglob(CONFIDENCE_FILE))} == before
    assert len(before) == 4
