"""`kbforge lab bench scale` as users run it."""

from __future__ import annotations

from pathlib import Path

from tests.people import write_people
from tests.program import Run

LITTLE = ("--likelihood", "attributes", "--sizes", "20,40,80")


def test_a_plan_from_a_file_for_people_and_programs(program: Run, tmp_path: Path) -> None:
    file, page = write_people(tmp_path / "people.jsonl"), tmp_path / "plan.md"
    ran = program("lab", "bench", "scale", file, *LITTLE, "--draw", "random", "-o", page, "--json")
    assert ran.code == 0, ran.err
    found = ran.json
    assert [one["fragments"] for one in found["sizes"]] == [20, 40, 80]
    assert [one["fragments"] for one in found["plans"]] == [10**7, 10**8, 10**9]
    for one in found["plans"]:
        assert one["seconds"]["low"] <= one["seconds"]["value"] <= one["seconds"]["high"]
        assert one["workers"] >= 1
    assert found["draw"] == "random fragments"
    assert "1,000,000,000" in page.read_text()
    assert str(file) in page.read_text()


def test_a_plan_without_a_file_is_printed(program: Run) -> None:
    ran = program("lab", "bench", "scale", *LITTLE, "--gib", "2", "--hours", "1")
    assert ran.code == 0, ran.err
    assert "made-up people" in ran.out.decode()
    assert "A worker has 2 GiB" in ran.out.decode()
    assert any(line.startswith("10,000,000") for line in ran.out.decode().splitlines())


def test_what_cannot_be_measured_is_said_before_anything_runs(program: Run, tmp_path: Path) -> None:
    file = write_people(tmp_path / "people.jsonl")
    for arguments, sentence in (
        (("--sizes", "1,two"), "expected whole numbers with commas between, got 1,two"),
        (("--sizes", "10,20"), "expected three or more"),
        (("--gib", "0"), "--gib: expected a number above 0, got 0"),
        (("-o", file), "people.jsonl"),
    ):
        ran = program("lab", "bench", "scale", file, *arguments)
        assert ran.code != 0
        assert sentence in ran.err
    assert program("lab", "bench", "scale", "-").code != 0


def test_a_suite_is_still_a_suite(program: Run) -> None:
    unknown = program("lab", "bench", "scales")
    assert unknown.code == 1
    assert 'there is no suite "scales"' in unknown.err
    assert "SUITE" in program("lab", "bench", "--help").out.decode().upper()
    assert "--sizes" in program("lab", "bench", "scale", "--help").out.decode()
