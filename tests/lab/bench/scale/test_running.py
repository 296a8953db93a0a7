"""Parts of a file, drawn and measured."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kbforge.errors import KBForgeError, UsageError
from kbforge.files.fragments import read_fragments
from kbforge.fit.choices import Choices
from kbforge_lab.bench.scale.measuring import PARTS
from kbforge_lab.bench.scale.running import count_fragments, measure_all, sizes_of, write_parts
from tests.people import write_people


@pytest.mark.parametrize(
    ("total", "sizes"),
    [
        (None, (1_000, 3_000, 10_000, 30_000, 100_000)),
        (2_000_000, (1_000, 3_000, 10_000, 30_000, 100_000)),
        (50_576, (1_000, 3_000, 10_000, 30_000, 50_576)),
        (5_019, (627, 1_254, 2_509, 5_019)),
        (100, (12, 25, 50, 100)),
        (5, (1, 2, 5)),
    ],
)
def test_sizes_that_nobody_named(total: int | None, sizes: tuple[int, ...]) -> None:
    assert sizes_of(total) == sizes


def test_sizes_that_cannot_be() -> None:
    assert sizes_of(None, [30, 10, 20, 20]) == (10, 20, 30)
    for wrong in ([10, 20], [10, 10, 10], [0, 10, 20]):
        with pytest.raises(UsageError, match="three or more from 1"):
            sizes_of(100, wrong)
    with pytest.raises(UsageError, match="at most 100 fragments, got 101"):
        sizes_of(100, [10, 20, 101])
    with pytest.raises(KBForgeError, match="there are 3 fragments"):
        sizes_of(3)


def ids(path: Path) -> list[str]:
    return [one.id for one in read_fragments(str(path))]


def test_parts_are_beginnings_or_nested_draws(tmp_path: Path) -> None:
    file = write_people(tmp_path / "people.jsonl")
    everything = ids(file)
    assert count_fragments(str(file)) == len(everything)
    write_parts(str(file), (10, 30), "first", 0, tmp_path)
    assert ids(tmp_path / "30.jsonl") == everything[:30]
    assert ids(tmp_path / "10.jsonl") == everything[:10]
    write_parts(str(file), (10, 30), "random", 0, tmp_path)
    small, large = ids(tmp_path / "10.jsonl"), ids(tmp_path / "30.jsonl")
    assert (len(small), len(large)) == (10, 30)
    assert set(small) < set(large) != set(everything[:30])
    assert large == [id for id in everything if id in set(large)]
    write_parts(str(file), (10, 30), "random", 1, tmp_path)
    assert ids(tmp_path / "30.jsonl") != large


def test_made_up_people_are_as_many_as_the_records_allow(tmp_path: Path) -> None:
    write_parts(None, (60, 600), "first", 0, tmp_path)
    found = [{one.label for one in read_fragments(str(tmp_path / f"{n}.jsonl"))} for n in (60, 600)]
    assert 12 <= len(found[0]) <= 20
    assert 120 <= len(found[1]) <= 200


def test_sizes_go_all_the_way_in_processes_of_their_own(tmp_path: Path) -> None:
    told: list[tuple[int, str, float]] = []
    found = list(
        measure_all(
            None,
            (20, 40, 80),
            Choices(likelihood="attributes"),
            on_part=lambda *part: told.append(part),
            environment={"KBFORGE_KERNEL": "0"},
            shards=(1, 4),
        )
    )
    assert [one.fragments for one in found] == [20, 40, 80]
    for one in found:
        assert list(one.wall) == list(one.cpu) == list(PARTS)
        assert all(seconds > 0 for seconds in one.wall.values())
        assert 0 < one.subproblems <= one.entities <= one.clusters
        assert one.entities <= one.fragments
        assert one.written > 0
        assert one.kernel.startswith("no kernel")
    assert [part for size, part, _ in told if size == 80] == list(PARTS)
    assert [len(one.routed) for one in found] == [0, 0, 2]
    alone, four = found[-1].routed
    assert (alone.shards, alone.messages, alone.crossing, alone.skew) == (1, 80, 0, 1.0)
    assert four.shards == 4
    assert four.messages == 80 + four.moves
    assert 1.0 <= four.skew <= 4.0
    assert os.environ.get("KBFORGE_KERNEL") != "0"


def test_a_run_that_fails_says_at_which_size() -> None:
    choices = Choices(likelihood="gaussian")
    with pytest.raises(KBForgeError, match="at 10 fragments: "):
        list(measure_all(None, (10, 20, 30), choices))
