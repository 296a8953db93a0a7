"""Sessions: what comes in, what is known by then, and going on from a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from kbforge import registry
from kbforge.clustering.session import SmcSession
from kbforge.contracts import (
    Clusterer,
    Fate,
    Fragment,
    Interrupted,
    ModelSpec,
    OnStep,
    Posterior,
    Progress,
)
from kbforge.errors import UsageError
from kbforge.indexes.selective import Selective
from kbforge.testing import BlackBox, Categorical, examples
from kbforge_plugins.clusterers.sequential import GreedyClusterer, Smc, SplitSmc
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.clustering.contents import contents
from tests.clustering.test_failures import LIKELIHOODS, RULES
from tests.clustering.toys import Chain, fragments_of, normal

CLUSTERERS = [GreedyClusterer, Smc, SplitSmc]
POINTS = [(0.0,), (0.1,), (5.0,), (5.1,), (9.0,)]


@pytest.mark.parametrize("name", ["split-smc", "smc", "greedy"])
def test_the_posterior_of_a_step_is_that_of_the_prefix(name: str) -> None:
    items, spec = examples.fragments(12), ModelSpec(Categorical(), alpha=0.5)
    seen: list[Posterior] = []

    def on_step(progress: Progress) -> None:
        assert progress.posterior is not None
        seen.append(progress.posterior())

    clusterer = registry.create("clusterers", name)
    clusterer.cluster(items, spec, np.random.default_rng(0), on_step)
    assert len(seen) == len(items)
    for n, shown in enumerate(seen, 1):
        alone = clusterer.cluster(items[:n], spec, np.random.default_rng(0))
        assert shown.subproblems == alone.subproblems
        assert shown.log_posterior == alone.log_posterior
        assert not shown.complete


@pytest.mark.parametrize("clusterer", CLUSTERERS)
def test_an_interrupted_run_keeps_its_prefix(clusterer) -> None:  # type: ignore[no-untyped-def]
    def stop(progress: Progress) -> None:
        if progress.fragments == 3:
            raise Interrupted

    fragments = fragments_of(POINTS)
    spec = ModelSpec(Chain(normal()), 1.0)
    cut = clusterer().cluster(fragments, spec, np.random.default_rng(0), stop)
    prefix = clusterer().cluster(fragments[:3], spec, np.random.default_rng(0))
    assert not cut.complete
    assert cut.n_fragments == 3
    assert cut.subproblems == prefix.subproblems


@pytest.mark.parametrize("stage", ["conjugate", "black box", "surrogate", "indexed"])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_a_snapshot_is_all_there_is(name: str, stage: str) -> None:
    """The restored session holds the same bits where that matters, and goes on alike."""
    draw, make = LIKELIHOODS[name]
    items = draw(np.random.default_rng(5), 16)

    def spec() -> ModelSpec:
        model = make(items)
        if stage == "black box":
            return ModelSpec(BlackBox(model), 0.8)
        if stage == "surrogate":
            return ModelSpec(BlackBox(model), 0.8, model, 6)  # type: ignore[arg-type]
        index = Selective() if stage == "indexed" else None
        if index is not None:
            index.fit(items)
        return ModelSpec(model, 0.8, index=index)

    for rules in RULES.values():
        whole = SmcSession(spec(), rules, np.random.default_rng(1))
        first = SmcSession(spec(), rules, np.random.default_rng(1))
        whole.add(items)
        first.add(items[:9])
        snapshot = first.snapshot()
        second = SmcSession(spec(), rules, np.random.default_rng(2), snapshot)
        assert second.posterior() == first.posterior()
        assert contents(second.snapshot()) == contents(snapshot)
        second.add(items[9:])
        assert second.posterior() == whole.posterior()
        third = second.snapshot()
        first.add(items[9:])
        assert contents(first.snapshot()) == contents(third) == contents(whole.snapshot())


def test_a_snapshot_of_other_settings_is_refused() -> None:
    spec, rng = ModelSpec(Gaussian(), 1.0), np.random.default_rng(0)
    session = SplitSmc(particles=10).open(spec, rng)
    session.add(fragments_of([(0.0,), (1.0,)]))
    snapshot = session.snapshot()
    with pytest.raises(UsageError, match="particles 10, but this one has 20"):
        SplitSmc(particles=20).open(spec, rng, snapshot)
    with pytest.raises(UsageError, match=r"alpha 1\.0, but this one has 2\.0"):
        SplitSmc(particles=10).open(ModelSpec(Gaussian(), 2.0), rng, snapshot)
    powered = replace(spec, exponent=0.5)
    with pytest.raises(UsageError, match=r"exponent 1\.0, but this one has 0\.5"):
        SplitSmc(particles=10).open(powered, rng, snapshot)
    old = {name: value for name, value in snapshot.totals.settings.items() if name != "exponent"}
    before = replace(snapshot, totals=replace(snapshot.totals, settings=old))
    assert SplitSmc(particles=10).open(spec, rng, before).n_fragments == 2
    with pytest.raises(UsageError, match=r"exponent 1\.0, but this one has 0\.5"):
        SplitSmc(particles=10).open(powered, rng, before)
    other = np.random.Generator(np.random.MT19937(0))
    with pytest.raises(UsageError, match=r"PCG64.*MT19937"):
        SplitSmc(particles=10).open(spec, other, snapshot)


def test_what_a_step_says_happened() -> None:
    """Two points far apart, one beside the first, and one between all that connects them."""
    spec = ModelSpec(Chain(normal(1.0, 6.0)), 1.0)
    session = SplitSmc(particles=20).open(spec, np.random.default_rng(0))
    opened, far, beside, between = session.add(fragments_of([(-3.0,), (3.0,), (-3.1,), (0.0,)]))
    assert (opened.fate, opened.before, opened.after) == (Fate.OPENED, (), (0,))
    assert opened.subproblems == 1
    for step in (far, beside, between):
        named = {Fate.OPENED: 0, Fate.JOINED: 1}.get(step.fate, 2)
        assert min(len(step.before), 2) == named
        assert step.after
    blocks = session.posterior().subproblems
    assert between.subproblems == len(blocks)
    assert {block.fragments[0] for block in blocks} >= set(between.after)


class Plain(Clusterer):
    """A clusterer that has `cluster` alone."""

    def cluster(
        self,
        fragments: Sequence[Fragment],
        spec: ModelSpec,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Posterior:
        return GreedyClusterer().cluster(fragments, spec, rng, on_step)


def test_a_batch_method_says_that_it_is_one() -> None:
    said = "plain visits all fragments again and again: it is an offline method"
    with pytest.raises(UsageError, match=said):
        Plain().open(ModelSpec(Gaussian(), 1.0), np.random.default_rng(0))
