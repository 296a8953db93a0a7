"""A router of shards without shards: what it would send, as counted in a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kbforge.clustering.propose import Rules
from kbforge.clustering.sharding.shard import Shard
from kbforge.contracts import Fragment, Problem
from kbforge_lab.bench.scale.measuring import Step, simulate, steps_in_groups
from kbforge_plugins.resamplers import Greedy
from tests.clustering.test_sharding import of_people, sharded


def steps_of(fragments: Iterable[Fragment], problem: Problem, rules: Rules) -> Iterator[Step]:
    """The steps of a run: exactly what shards would report."""
    index, shard = problem.index, None
    assert index is not None
    for number, x in enumerate(fragments):
        if shard is None:
            shard = Shard(problem, rules, x)
        keys = index.keys(x)
        yield keys, shard.add(number, x, ())


def test_a_simulation_counts_what_a_run_does() -> None:
    fragments, problem = of_people(120, 4)
    rules = Rules(20, Greedy(), splits=True)
    _, real = sharded(problem, rules, fragments, 3, 15)
    assert problem.index is not None
    families = problem.index.families
    steps = list(steps_of(fragments, problem, rules))
    assert simulate(steps, families, 3, 16) == real
    alone = simulate(steps, families, 1, 16)
    assert (alone.fragments, alone.moves, alone.skew) == ([len(fragments)], 0, 1.0)
    assert simulate([], families, 3, 16).skew == 1.0


def test_a_simulation_of_groups() -> None:
    """0 and 1 are one, 2 is another; 3 has a key of both, and 4 one that has led too far."""
    keys = [(1, 9), (1,), (2, 9), (1, 2), (9,)]
    steps = list(steps_in_groups(keys, [0, 0, 2, 0, 4], 1))
    assert [report.before for _, report in steps] == [(), (0,), (), (0,), ()]
    assert [report.closed for _, report in steps] == [(), (), (), (), (9,)]
    counts = simulate(steps, 1, 2, 1)
    # 2 has a key of 0, so that both are on one shard; so is what asks for both
    assert counts.fragments == [5, 0]
    assert counts.skew == 2


def test_unconnected_fragments_are_spread_evenly() -> None:
    counts = simulate(steps_in_groups([(i,) for i in range(90)], range(90), 8), 8, 3, 10)
    assert counts.fragments == [30, 30, 30]
    assert (counts.moves, counts.crossing, counts.messages) == (0, 0, 90)
