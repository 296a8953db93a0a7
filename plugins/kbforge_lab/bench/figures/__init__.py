"""The figures of the split-SMC paper from our rows, the curves and the seconds.

| call | paper | shows |
|---|---|---|
| `metric_by_runtime` | figures 5-9 | every metric against the seconds that a method takes |
| `metric_by_particles` | figures 10-14 | every metric against P |
| `metric_by_observations` | figure 4 | metrics as fragments arrive |
| `subproblems_and_particles` | figure 15 | how many, against P and as fragments arrive |
| `surrogate_ablation` | figures 16-19 | every metric against M, from 1 to unlimited |

Each of them takes the rows of one task. It returns a figure, or None where there is nothing to
show. Two are of no paper of split SMC: `seconds_by_size` draws curves of seconds against fragments,
`log_posterior_by_seconds` the ways of samplers in a race.

Points are means over shuffles. Bars and bands are one standard deviation, cut where a figure cannot
go on (a share ends at 1). All points of a curve are of the same shuffles, those that all its
settings have, because orders of the data differ more than settings do. For the same reason a curve
over fragments seen ends where the first of its runs ends.
"""

from kbforge_lab.bench.figures.curves import (
    ablation_setting,
    log_posterior_by_seconds,
    metric_by_observations,
    metric_by_particles,
    seconds_by_size,
    subproblems_and_particles,
    surrogate_ablation,
)
from kbforge_lab.bench.figures.runtime import metric_by_runtime

__all__ = [
    "ablation_setting",
    "log_posterior_by_seconds",
    "metric_by_observations",
    "metric_by_particles",
    "metric_by_runtime",
    "seconds_by_size",
    "subproblems_and_particles",
    "surrogate_ablation",
]
