"""When each method of a race reached what the slowest ended at."""

from __future__ import annotations

from typing import Any

import pytest

from kbforge.bench.race import race_part, reached
from kbforge.bench.results import TraceRow
from tests.bench.toys import GREEDY, SPLIT, plan, row


def mark(key: str, seconds: float, log_posterior: float, **other: Any) -> TraceRow:
    return TraceRow(
        key=key,
        suite="toys",
        task="toy",
        method="",
        particles=None,
        surrogate=False,
        max_evals=None,
        shuffle=0,
        fragments=40,
        seconds=seconds,
        subproblems=1,
        log10_effective_particles=0.0,
        model_evaluations=1,
        log_posterior=log_posterior,
        f1=0.5,
        precision=0.5,
        recall=0.5,
    )


def test_the_level_is_where_the_lowest_ends() -> None:
    rows = [
        row(GREEDY, 0, log_posterior=-100.0, seconds=9.0),
        row(SPLIT, 0, log_posterior=-50.0, seconds=8.0),
        row(GREEDY, 1, log_posterior=-40.0, seconds=6.0),
        row(SPLIT, 1, log_posterior=-60.0, seconds=5.0),
        row(SPLIT, 2, log_posterior=-1.0, seconds=5.0),  # the other did not run on this order
    ]
    greedy, split = rows[0].key, rows[1].key
    trace = [
        mark(greedy, 1.0, -200.0),
        mark(greedy, 5.0, -100.0),
        mark(split, 1.0, -150.0),
        mark(split, 2.0, -99.0),
        mark(split, 3.0, -60.0),
        mark(rows[2].key, 2.0, -59.0),
        mark(rows[3].key, 4.0, -61.0),
    ]
    made = reached(plan(race=True), rows, trace)
    found = {one.method: one for one in made}
    assert found["Split SMC"].seconds.mean == pytest.approx((2.0 + 5.0) / 2)
    assert found["Greedy"].seconds.mean == pytest.approx((5.0 + 2.0) / 2)
    assert found["Greedy"].level.mean == pytest.approx(-80.0)
    assert [one.times for one in made] == [1.0, 1.0]
    assert "| Split SMC | 3.50 (2.12) | 1.0 |" in race_part("toy", plan(), made)


def test_without_an_order_that_all_ran_on_there_is_no_race() -> None:
    rows = [row(GREEDY, 0), row(SPLIT, 1)]
    assert reached(plan(), rows, []) == []
    assert "No order" in race_part("toy", plan(), [])
