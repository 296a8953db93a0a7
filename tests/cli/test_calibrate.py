"""`kbforge calibrate` as users run it, with the Gaussian likelihood."""

from __future__ import annotations

import json
import sys
import tomllib

import numpy as np
import orjson
import pytest

from kbforge.calibrating import sparkline
from kbforge.calibration import read_calibration
from kbforge.cli import main as program


@pytest.fixture
def kbforge(monkeypatch, capsys):
    """Runs the program; returns (exit code, stdout, stderr)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["kbforge", *map(str, arguments)])
        try:
            program.main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def points(tmp_path):
    """Labelled points around 12 centres, two of them seen once."""
    rng = np.random.default_rng(5)
    path = tmp_path / "points.jsonl"
    lines = []
    for k in range(12):
        centre = rng.uniform(-20, 20, 2)
        for j in range(1 if k < 2 else 8):
            x, y = (centre + rng.normal(0, 0.5, 2)).tolist()
            lines.append({"id": f"{k}-{j}", "properties": {}, "vector": [x, y], "label": f"c{k}"})
    path.write_bytes(b"\n".join(orjson.dumps(line) for line in lines))
    return path


GAUSSIAN = ("--likelihood", "gaussian", "--set", "likelihood.a=2", "--set", "likelihood.b=0.5")


@pytest.mark.parametrize("calibrator", ["pseudo-likelihood", "bcubed", "empirical-bayes"])
def test_calibrated_alpha_is_written_and_clusters(kbforge, points, tmp_path, calibrator):
    out = tmp_path / "calibration.toml"
    code, stdout, stderr = kbforge(
        "calibrate", points, "--calibrator", calibrator, *GAUSSIAN, "-P", 5, "-o", out, "--json"
    )
    assert code == 0, stderr
    printed = json.loads(stdout)
    found = read_calibration(str(out))
    assert printed["alpha"] == found.alpha
    assert printed["objective"] == found.objective == calibrator
    assert found.at_edge == ""
    assert found.likelihood == "gaussian"
    assert found.options == {"a": "2", "b": "0.5"}
    assert found.fragments == 82
    code, stdout, stderr = kbforge(
        "cluster", points, *GAUSSIAN, "--calibration", out, "-o", tmp_path / "kb.jsonl", "--json"
    )
    assert code == 0, stderr
    assert json.loads(stdout)["alpha"] == found.alpha
    assert 10 <= json.loads(stdout)["entities"] <= 14


def test_same_seed_same_bytes_and_stdout(kbforge, points, tmp_path):
    out = tmp_path / "c.toml"
    assert kbforge("calibrate", points, *GAUSSIAN, "-o", out)[0] == 0
    code, stdout, stderr = kbforge("calibrate", points, *GAUSSIAN, "-o", "-")
    assert code == 0
    assert stdout == out.read_text()
    assert tomllib.loads(stdout)["format"] == 1
    assert "alpha" in stderr
    assert "█" in stderr


def test_edge_is_warned_about(kbforge, points, tmp_path):
    code, _, stderr = kbforge(
        "calibrate", points, *GAUSSIAN, "--high", "1e-3", "-o", tmp_path / "c.toml"
    )
    assert code == 0
    assert "high edge of the search range (0.001)" in stderr
    assert read_calibration(str(tmp_path / "c.toml")).at_edge == "high"


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--low", "0"], 2, "--low: expected an alpha above 0, got 0"),
        (["--low", "-3"], 2, "--low: expected an alpha above 0"),
        (["--high", "nan"], 2, "--high: expected an alpha above 0"),
        (["--low", "2", "--high", "1"], 2, "--low 2 must be below --high 1"),
        (["--calibrator", "magic"], 1, 'there is no calibrator "magic"'),
        (["--set", "calibrator.grid=3"], 2, 'calibrator pseudo-likelihood has no option "grid"'),
        (["--calibrator", "bcubed", "--set", "calibrator.grid=x"], 2, "expected a whole number"),
        (["--likelihood", "nothing"], 1, 'there is no likelihood "nothing"'),
        (["--set", "nonsense"], 2, "expected kind.option=value"),
        (["--json", "-o", "-"], 2, "both write to standard output"),
    ],
)
def test_bad_use_is_one_sentence(kbforge, points, tmp_path, options, code, said):
    out = tmp_path / "c.toml"
    got, _, stderr = kbforge("calibrate", points, *GAUSSIAN, "-o", out, *options)
    assert got == code
    assert said in stderr
    assert "Traceback" not in stderr
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
def test_bad_fragments_are_one_sentence(kbforge, tmp_path, text, said):
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    code, _, stderr = kbforge("calibrate", path, *GAUSSIAN, "-o", tmp_path / "c.toml")
    assert code == 1
    assert said in stderr
    assert "Traceback" not in stderr
    assert not (tmp_path / "c.toml").exists()


def test_sparkline_shows_the_shape():
    curve = [(1.0, 0.0), (10.0, 1.0), (100.0, 0.0)]
    assert sparkline(curve, 3) == "▁█▁"
    assert sparkline(curve[:2], 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([(1.0, -np.inf), (2.0, 1.0)], 3) == "▁▁▁"
    assert sparkline([(1.0, -np.inf)]) == ""
