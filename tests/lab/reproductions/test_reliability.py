"""The reliability reproduction: disjoint parts, and tables of what the command prints."""

from __future__ import annotations

import json

import pytest

from kbforge.contracts import Fragment
from kbforge.files.fragments import read_fragments
from tests.scripts import script

reliability = script("reliability")


def named(labels):
    return [Fragment(f"f{i}", {"name": ("x",)}, label=label) for i, label in enumerate(labels)]


def test_parts_are_whole_entities_in_order():
    fragments = named("aabacbdcddeef")
    first, second = reliability.parts(fragments, 4)
    # a has 3 and b 2, so the first part has 5; c has 2 and d 3
    assert "".join(f.label for f in first) == "aabab"
    assert "".join(f.label for f in second) == "cdcdd"


@pytest.mark.data
def test_the_subset_is_that_of_the_sources(data_dir):
    first, second = reliability.parts(list(read_fragments(str(data_dir / reliability.SET))), 5_000)
    assert (len(first), len({f.label for f in first})) == (5_019, 501)
    assert len(second) >= 5_000
    assert not {f.label for f in first} & {f.label for f in second}


def test_the_report_tells_every_bin(program, tmp_path):
    lines = [
        {"id": f"{k}-{j}", "properties": {}, "vector": [5.0 * k, 0.1 * j], "label": f"{k}"}
        for k in range(8)
        for j in range(4)
    ]
    path = tmp_path / "points.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    ran = program(
        "calibrate",
        path,
        "--likelihood",
        "gaussian",
        "--confidence",
        "-o",
        tmp_path / "m",
        "--json",
    )
    text = reliability.report(ran.json, 16)
    for kind in ("pairs", "entities"):
        for name in ("raw", "mapped"):
            measured = ran.json[kind][name]
            assert f"| {kind} | {name} | {measured['count']} | {measured['ece']:.4f} |" in text
            for row in measured["table"]:
                assert f"| {row['count']} | {row['reported']:.4f} | {row['share']:.4f} |" in text
    both = reliability.without_labels({"raw": ran.json, "warm": ran.json})
    assert both.count(f"{ran.json['pairs']['raw']['brier']:.4f}") >= 2
