"""When each method of a race reached what the slowest ended at."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import orjson
import pytest

from kbforge_lab.bench.perform import perform
from kbforge_lab.bench.race import race_part, reached
from kbforge_lab.bench.results import Row
from kbforge_lab.contracts.suite import Method
from tests.lab.bench.toys import GREEDY, SPLIT, plan, row, run


def raced(method: Method, shuffle: int, end: float, *way: tuple[float, float]) -> Row:
    made = row(method, shuffle, log_posterior=end, cpu_seconds=9.0)
    return replace(made, way=orjson.dumps(way).decode())


def test_the_level_is_where_the_lowest_ends() -> None:
    rows = [
        raced(GREEDY, 0, -100.0, (1.0, -200.0), (5.0, -100.0), (6.0, -100.0)),
        raced(SPLIT, 0, -50.0, (1.0, -150.0), (2.0, -99.0), (3.0, -60.0)),
        raced(GREEDY, 1, -40.0, (2.0, -59.0)),
        raced(SPLIT, 1, -60.0, (4.0, -61.0)),  # the last mark is before its end
        raced(SPLIT, 2, -1.0, (0.0, -1.0)),  # the other did not run on this order
    ]
    made = reached(plan(race=True), rows)
    found = {one.method: one for one in made}
    assert found["Split SMC"].seconds.mean == pytest.approx((2.0 + 9.0) / 2)
    assert found["Greedy"].seconds.mean == pytest.approx((5.0 + 2.0) / 2)
    assert found["Greedy"].level.mean == pytest.approx(-80.0)
    assert [one.method for one in made] == ["Greedy", "Split SMC"]
    assert made[1].times == pytest.approx(5.5 / 3.5)
    assert "| Greedy | 3.50 (2.12) | 1.0 |" in race_part("toy", plan(), made)


def test_without_an_order_that_all_ran_on_there_is_no_race() -> None:
    rows = [row(GREEDY, 0), row(SPLIT, 1)]
    assert reached(plan(), rows) == []
    assert "No order" in race_part("toy", plan(), [])


def test_an_offline_method_tells_its_way() -> None:
    """From its start to where it ends, upwards and apart."""
    sampler = Method("Gibbs", "gibbs", {"sweeps": 30, "patience": None})
    done = perform(run(sampler)).row
    way = orjson.loads(done.way)
    assert [best for _, best in way] == sorted(best for _, best in way)
    assert all(later >= 1.05 * earlier for (earlier, _), (later, _) in pairwise(way))
    assert way[-1][1] <= done.log_posterior + 1e-6
    assert len(way) > 1
    assert perform(run()).row.way == "[]"
