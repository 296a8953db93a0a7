"""Made-up people: as many as asked for, the same each time, with slips and gaps."""

from __future__ import annotations

from collections import defaultdict
from itertools import islice

import pytest

from kbforge.errors import UsageError
from kbforge_lab.bench.scale.people import records


def test_the_same_records_each_time_and_others_by_another_seed() -> None:
    first, again, other = (list(islice(records(50, seed), 200)) for seed in (1, 1, 2))
    assert first == again
    assert [one.properties for one in first] != [one.properties for one in other]
    assert len({one.id for one in first}) == 200
    assert all(one.properties for one in first)


def test_the_population_is_fixed_and_its_records_have_slips() -> None:
    names: dict[str | None, set[str]] = defaultdict(set)
    for one in islice(records(10), 2_000):
        names[one.label].update(one.properties.get("name", ()))
    assert len(names) == 10
    assert all(len(spelled) > 5 for spelled in names.values())


def test_spellings_come_to_an_end() -> None:
    names: dict[str | None, set[str]] = defaultdict(set)
    for one in islice(records(5, spellings=3), 3_000):
        names[one.label].update(one.properties.get("name", ()))
    assert all(2 <= len(spelled) <= 4 for spelled in names.values())


def test_nobody_has_no_records() -> None:
    with pytest.raises(UsageError, match="1 or more, got 0"):
        next(records(0))
