"""One run of a grouper, in this process: group by examples, score the pairs.

A grouper may give a sample of groupings, such as the second half of a chain; its scores are then
the sample's means, rounded where they are counts.
"""

from __future__ import annotations

import math

import numpy as np
import orjson

from kbforge import __version__
from kbforge.evaluation.scores import compare
from kbforge_lab.bench.costs import Clocks, peak_mib
from kbforge_lab.bench.results import Row
from kbforge_lab.bench.runs import Run


def by_examples(run: Run) -> Row:
    """Do one run of a task with examples."""
    grouper = run.method.grouper
    assert grouper is not None
    fragments = run.fragments()
    gold = [str(fragment.label) for fragment in fragments]
    begin = Clocks.now()
    found = grouper.group(run.task.examples, fragments, run.method_seed)
    spent = Clocks.now() - begin
    scores = [compare(grouping, gold).to_json() for grouping in found.groupings]
    mean = {name: float(np.mean([one[name] for one in scores])) for name in scores[0]}
    return Row(
        **run.identity,
        clusterer="",
        options=repr(grouper),
        budget=run.seconds,
        fragments=len(fragments),
        of=len(fragments),
        cut=False,
        log_posterior=float(np.mean(found.trace)) if found.trace else -math.inf,
        f1=mean["bcubed_f1_item_mean"],
        precision=mean["bcubed_precision"],
        recall=mean["bcubed_recall"],
        entities=round(mean["clusters"]),
        gold_entities=round(mean["gold_clusters"]),
        exact_entities=round(mean["exact_clusters"]),
        subproblems=0,
        log10_effective_particles=0.0,
        model_evaluations=0,
        seconds=spent.wall,
        cpu_seconds=spent.cpu,
        version=__version__,
        peak_mib=peak_mib(),
        pairwise_precision=mean["pairwise_precision"],
        pairwise_recall=mean["pairwise_recall"],
        pairwise_f1=mean["pairwise_f1"],
        rand=mean["rand"],
        edit_score=mean["normalised_edit_score"],
        normalised_vi=mean["normalised_vi"],
        trace=orjson.dumps(list(map(float, found.trace))).decode(),
    )
