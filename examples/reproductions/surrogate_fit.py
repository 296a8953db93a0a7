"""The Gaussian surrogate for circles, fitted by evidence, beside the published one.

    python examples/reproductions/surrogate_fit.py

It is fitted to 1,000 simulated circles (split-SMC paper, appendix D.2) and judged by the evidence
of 1,000 others. It is also judged by clustering: split SMC (P = 100, alpha 1) with the surrogate
alone, on 5 draws of 15 circles in 3 orders each.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from gaussian_prior import fit
from shell import table

from kbforge.contracts import FloatArray, Fragment
from kbforge.evaluation.scores import compare
from kbforge.fit.choices import RunOptions
from kbforge.jobs.cluster import cluster
from kbforge_lab.suites.circles import CIRCLES, SURROGATE, draw_clusters, fragments_of
from kbforge_plugins.likelihoods.gaussian import Gaussian

SIMULATED = 1000
DRAWS, ORDERS = 5, 3

Options = Mapping[str, tuple[float, ...]]


def evidence_per_cluster(options: Options, clusters: list[FloatArray]) -> float:
    """Mean L(C), nats."""
    sets = [[Fragment(str(i), {}, tuple(x)) for i, x in enumerate(c.tolist())] for c in clusters]
    return float(Gaussian(**options).log_marginal(sets).mean())


def clustering_f1(options: Options, draws: int, orders: int) -> list[float]:
    """F1 of every draw in every order."""
    choices = RunOptions(likelihood="gaussian", alpha=1.0, options={"likelihood": options})
    found = []
    for seed in range(draws):
        for order in range(orders):
            # the same circles, shuffled anew
            circles = draw_clusters(CIRCLES, np.random.default_rng(seed))
            fragments = fragments_of(circles, np.random.default_rng([seed, order]))
            posterior = cluster(fragments, choices).posterior
            gold = [fragment.label for fragment in fragments]
            found.append(compare(posterior.labels(), gold).bcubed_f1_item_mean)
    return found


def main() -> None:
    """Print the table."""
    simulated, held_out = (
        draw_clusters(SIMULATED, np.random.default_rng([2, seed])) for seed in (0, 1)
    )
    fitted = fit(simulated)
    rows = []
    for name, options in (("published", SURROGATE), ("fitted", dict(fitted.options))):
        f1 = clustering_f1(options, DRAWS, ORDERS)
        rows.append(
            [
                name,
                *(", ".join(f"{value:.4g}" for value in values) for values in options.values()),
                f"{evidence_per_cluster(options, simulated):.3f}",
                f"{evidence_per_cluster(options, held_out):.3f}",
                f"{np.mean(f1):.3f} ({np.std(f1, ddof=1):.3f})",
            ]
        )
    head = ["surrogate", "a", "b", "mu", "lambda", "nats a cluster", "held out", "F1 (sd)"]
    print(table(head, rows))
    settings = [
        f"--set likelihood.{name}={','.join(f'{value:.6g}' for value in values)}"
        for name, values in fitted.options.items()
    ]
    print("\nkbforge cluster ... --likelihood gaussian " + " ".join(settings))


if __name__ == "__main__":
    main()
