"""The clusterer `spark`: as `batch`, with pairs and rounds on Spark."""

from __future__ import annotations

import tempfile
import uuid
from contextlib import ExitStack

from kbforge.clustering.rounds import LEAST, MOST_SHARING, TOP, Agglomeration
from kbforge.clustering.rules import DirichletProcess
from kbforge.contracts import ModelSpec
from kbforge.errors import UsageError, require_least
from kbforge.store.pages import kept_to_bytes
from kbforge_plugins.clusterers.batch import Batch
from kbforge_spark.session import session
from kbforge_spark.stages import Stages, done
from kbforge_spark.tasks import GAIN_UNITS, Blocking, Scoring


class SparkBatch(Batch):
    """Best merges in rounds on Spark, then split SMC where they are in doubt on the driver.

    The result is that of `batch`, bit for bit. Constraints are refused, and likelihoods whose
    clusters cannot be sent to other machines.

    Args:
        master: where Spark is, as for `spark-submit --master`.
        folder: stages are written there, and removed; workers must see it. By default a temporary
            one.
        few: as soon as so few pairs of clusters are left, the driver makes the other rounds.
        particles: see `batch`, as the following ones.
        floor: see `batch`.
        doubt: see `batch`.
        largest: see `batch`.

    """

    def __init__(
        self,
        master: str = "local[*]",
        folder: str | None = None,
        few: int = 20_000_000,
        particles: int = 100,
        floor: float | None = None,
        doubt: float = 5.0,
        largest: int = 200,
    ) -> None:
        require_least(0, few=few)
        super().__init__(particles, floor, doubt, largest)
        self._master, self._folder, self._few = master, folder, few

    def _merge(self, run: Agglomeration, spec: ModelSpec) -> None:
        if spec.constraints:
            raise UsageError("clusterer spark: a link, or answers, need the clusterer batch")
        units = run.units()
        if units.table is None:
            raise UsageError("clusterer spark: expected --likelihood attributes or pairs")
        prior, index = DirichletProcess.of(spec), spec.index
        assert index is not None, "see `merges`"
        with ExitStack() as stack:
            folder = self._folder
            if folder is None:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kbforge-"))
            spark = stack.enter_context(session(self._master))
            table = spark.sparkContext.broadcast(kept_to_bytes(units.table))
            name = uuid.uuid4().hex
            stages = Stages(
                spark,
                f"{folder}/{name}",
                Blocking(MOST_SHARING, index.shared, index.compared or TOP),
                Scoring(name, table, prior.alpha, prior.exponent),
                round(LEAST * GAIN_UNITS),
                round(self._doubt.nats * GAIN_UNITS),
            )
            stack.callback(stages.remove)
            clusters = stages.read(units)
            pairs = stages.pairs(clusters)
            edges = stages.edges(pairs, clusters)
            rounds = list(stages.rounds(edges, clusters, self._few))
            run.resume(done(pairs, edges, rounds))
