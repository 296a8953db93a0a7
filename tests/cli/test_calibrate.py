"""`kbforge calibrate` as users run it, with the Gaussian likelihood."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest

from kbforge.fit.alpha import read_calibration
from kbforge.fit.calibrate import sparkline
from tests.jsonl import write_lines


@pytest.fixture
def points(tmp_path):
    """Labelled points around 12 centres, two of them seen once."""
    rng = np.random.default_rng(5)
    lines = []
    for k in range(12):
        centre = rng.uniform(-20, 20, 2)
        for j in range(1 if k < 2 else 8):
            vector = (centre + rng.normal(0, 0.5, 2)).tolist()
            lines.append({"id": f"{k}-{j}", "properties": {}, "vector": vector, "label": f"c{k}"})
    return write_lines(tmp_path / "points.jsonl", lines)


GAUSSIAN = ("--likelihood", "gaussian", "--set", "likelihood.a=2", "--set", "likelihood.b=0.5")


@pytest.mark.parametrize("calibrator", ["pseudo-likelihood", "bcubed"])
def test_calibrated_alpha_is_written_and_clusters(program, points, tmp_path, calibrator):
    out = tmp_path / "calibration.toml"
    ran = program(
        "calibrate",
        points,
        "--calibrator",
        calibrator,
        *GAUSSIAN,
        "--set",
        "particles=5",
        "-o",
        out,
        "--json",
    )
    found = read_calibration(str(out))
    assert ran.json["alpha"] == found.alpha
    assert ran.json["objective"] == found.objective == calibrator
    assert found.at_edge == ""
    assert found.likelihood == "gaussian"
    assert found.options == {"a": "2", "b": "0.5"}
    assert found.fragments == 82
    ran = program(
        "cluster",
        points,
        *GAUSSIAN,
        "--set",
        f"calibration={out}",
        "-o",
        tmp_path / "kb.jsonl",
        "--json",
    )
    assert ran.json["alpha"] == found.alpha
    assert 10 <= ran.json["entities"] <= 14


@pytest.mark.parametrize("calibrator", ["pseudo-likelihood", "bcubed"])
def test_the_default_likelihood_can_be_calibrated(program, tmp_path, calibrator):
    """It finds an alpha itself, but labels tell it better."""
    lines = [
        {"properties": {"name": [name], "town": [town], "born": [born]}, "label": name}
        for name, town, born in (
            *[("Ann Lee", "Lund", "1815"), ("Bo Ek", "Oslo", "1912"), ("Cy Orr", "Rome", "1906")],
            *[("Di Fox", "Lund", "1871"), ("Ed Ash", "Oslo", "1877"), ("Flo Kay", "Bern", "1899")],
        )
        for _ in range(5)
    ]
    for i, line in enumerate(lines):
        line["id"] = f"f{i}"
    people, out, kb = (tmp_path / name for name in ("p.jsonl", "c.toml", "kb.jsonl"))
    write_lines(people, lines)
    # nobody is alone, so the pseudo-likelihood takes the least alpha that it may
    search = ("--between", "0.1,1e9", "--set", "particles=5")
    ran = program("calibrate", people, "--calibrator", calibrator, *search, "-o", out, "--json")
    assert read_calibration(str(out)).likelihood == ran.json["likelihood"]
    assert ran.json["likelihood"] in ("attributes", "pairs")
    values = [value for _, value in ran.json["curve"]]
    assert ran.json["value"] == pytest.approx(max(values))
    assert max(values) > min(values), "alpha does nothing"
    clustered = program("cluster", people, "--set", f"calibration={out}", "-o", kb, "--json")
    assert clustered.json["alpha"] == ran.json["alpha"]
    assert "used here with" not in clustered.err
    assert clustered.json["entities"] == 6


def test_same_seed_same_bytes_and_stdout(program, points, tmp_path):
    out = tmp_path / "c.toml"
    program("calibrate", points, *GAUSSIAN, "-o", out)
    ran = program("calibrate", points, *GAUSSIAN, "-o", "-")
    assert ran.out == out.read_bytes()
    assert tomllib.loads(ran.out.decode())["format"] == 1
    assert "alpha" in ran.err
    assert "█" in ran.err


def test_edge_is_warned_about(program, points, tmp_path):
    out = tmp_path / "c.toml"
    ran = program("calibrate", points, *GAUSSIAN, "--between", "4.5e-5,1e-3", "-o", out)
    assert "high edge of the search range (0.001)" in ran.err
    assert read_calibration(str(out)).at_edge == "high"


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--between", "0,1"], 2, "--between: expected LOW,HIGH with LOW above 0 and HIGH above"),
        (["--between", "-3,1"], 2, "HIGH above LOW, got -3,1"),
        (["--between", "1,nan"], 2, "HIGH above LOW, got 1,nan"),
        (["--between", "2,1"], 2, "HIGH above LOW, got 2,1"),
        (["--between", "1,2,3"], 2, "HIGH above LOW, got 1,2,3"),
        (["--between", "low"], 2, "HIGH above LOW, got low"),
        (["--calibrator", "magic"], 1, 'there is no calibrator "magic"'),
        (["--set", "calibrator.grid=3"], 2, 'calibrator pseudo-likelihood has no option "grid"'),
        (["--calibrator", "bcubed", "--set", "calibrator.grid=x"], 2, "expected a whole number"),
        (["--likelihood", "nothing"], 1, 'there is no likelihood "nothing"'),
        (["--set", "nonsense"], 2, "expected name=value or kind.option=value"),
        (["--json", "-o", "-"], 2, "both write to standard output"),
    ],
)
def test_bad_use_is_one_sentence(program, points, tmp_path, options, code, said):
    out = tmp_path / "c.toml"
    ran = program("calibrate", points, *GAUSSIAN, "-o", out, *options)
    assert ran.code == code
    assert said in ran.err
    assert not out.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there are no fragments"),
        (
            '{"id": "a", "properties": {}, "vector": [1, 2]}\n',
            "none of the 1 fragments has a label",
        ),
        ('{"id": "a", "properties": {"name": ["x"]}, "label": "l"}\n', "vector"),
        ('{"id": "a"', "expected a JSON object"),
    ],
)
def test_bad_fragments_are_one_sentence(program, tmp_path, text, said):
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    ran = program("calibrate", path, *GAUSSIAN, "-o", tmp_path / "c.toml")
    assert ran.code == 1
    assert said in ran.err
    assert not (tmp_path / "c.toml").exists()


def test_sparkline_shows_the_shape():
    curve = [(1.0, 0.0), (10.0, 1.0), (100.0, 0.0)]
    assert sparkline(curve, 3) == "▁█▁"
    assert sparkline(curve[:2], 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([(1.0, -np.inf), (2.0, 1.0)], 3) == "▁▁▁"
    assert sparkline([(1.0, -np.inf)]) == ""
