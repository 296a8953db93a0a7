"""What a likelihood reaches on a confusable set: B-cubed F1, and nats a fragment.

    python -m tests.lm.gpu.measure PACK FAMILY LIKELIHOOD [--gpu] [--first N]

prints one row as JSON. Alpha is the one with the best F1 on the family's train set (calibrator
`bcubed`); the figures are of its dev set. LIKELIHOOD is a name or a bundle; ":alone" after it
leaves out the surrogate's vote. Nats are of the gold entities: `bigram` reads names only, and
`pairs` and a model with a vote have none, as their scores are of no probability.
"""

import argparse
import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

FAMILIES = ("wd50", "dwie50", "wd200", "dwie100")
BASELINES = ("bigram", "pairs", "gpt", "gpt:alone")
ALONE = ":alone"
PARTICLES, MAX_EVALS = 20, 10
# log alpha of a language model: below, it asks for the longest sets, and joins nearly all; above,
# long sets of attributes that it never saw stay apart
LOWEST, HIGHEST = 4.0, 60.0


def measured(
    pack: Path, family: str, likelihood: str, gpu: bool = False, first: int | None = None
) -> dict[str, Any]:
    """One row; `first` reads so many fragments of each file."""
    # imported here, as `tests.lm.gpu.bare` finds them first
    import numpy as np

    from kbforge.contracts import Search
    from kbforge.evaluation.scores import compare
    from kbforge.files.fragments import read_fragments
    from kbforge.fit.calibrate import calibrate
    from kbforge.fit.choices import RunOptions
    from kbforge.fit.prepare import prepare
    from kbforge_training.lm.data import by_entity

    begin = time.perf_counter()
    train, dev = (
        list(read_fragments(str(pack / f"{family}_{half}.jsonl"), limit=first))
        for half in ("train", "dev")
    )
    name, alone, _ = likelihood.partition(ALONE)
    choices, search = RunOptions(likelihood=name, particles=PARTICLES), Search()
    if name not in ("bigram", "pairs"):
        options = {"likelihood": {"surrogate_weight": 0.0}} if alone else {}
        device = "cuda" if gpu else "cpu"
        choices = replace(choices, max_evals=MAX_EVALS, device=device, options=options)
        search = Search(LOWEST, HIGHEST)
    found, *_ = calibrate(train, choices, "bcubed", search)
    prepared = prepare(dev, replace(choices, alpha=found.alpha))
    rng = np.random.default_rng(0)
    posterior = prepared.clusterer.cluster(dev, prepared.problem, rng)
    scores = compare(posterior.labels(), [fragment.label for fragment in dev])
    nats = None
    if alone or name == "bigram":
        of_entities = prepared.problem.likelihood.log_marginal(by_entity(dev)[0])
        nats = -float(np.sum(of_entities)) / len(dev)
    return {
        "family": family,
        "likelihood": likelihood,
        "fragments": len(dev),
        "log_alpha": math.log(found.alpha),
        "f1_train": found.value,
        "precision": scores.bcubed_precision,
        "recall": scores.bcubed_recall,
        "f1": scores.bcubed_f1_item_mean,
        "nats_per_fragment": nats,
        "seconds": time.perf_counter() - begin,
    }


def main() -> None:
    """Print a row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pack", type=Path)
    parser.add_argument("family")
    parser.add_argument("likelihood")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--first", type=int)
    options = parser.parse_args()
    print(json.dumps(measured(**vars(options))))


if __name__ == "__main__":
    main()
