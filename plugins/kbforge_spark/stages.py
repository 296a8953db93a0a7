"""The stages of a clustering as DataFrames: keys, blocks, pairs, gains, rounds.

    units      unit, keys, size, written      one row a unit (`kbforge.clustering.rounds.Units`)
    pairs      one, other                     units to compare, one < other
    edges      one, other, gain               clusters whose merge would gain so much, in units
    clusters   unit, size, written            the present clusters, each named by one of its units

A round finds the best partner of each cluster, merges those that are each other's best, has edges
and clusters follow, and scores the edges of what has merged. What a round leaves is written as
Parquet, so that nothing is worked out twice, and a worker may be lost at any time.

All that is compared is whole numbers; equal gains are ordered by lot, as in the kernel
(`rounds.cpp`). So the merges are those of one machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from kbforge.clustering.rounds import Done, Units
from kbforge.contracts import IntArray
from kbforge_spark.tasks import TOGETHER, Blocking, Scoring, gains, key_numbers, nearest

_AT_ONCE = 1 << 18  # units that go to Spark at once
_PAIR = "one int, other int"
_MOST = (1 << 63) - 1


@dataclass(eq=False)
class Stages:
    """The stages of one run."""

    spark: SparkSession
    folder: str  # where stages are written; all workers see it
    blocking: Blocking  # how units are compared
    scoring: Scoring  # what workers need to score merges
    least: int  # edges that gain less are left out, in units
    certain: int  # merges that are better by more are not in doubt, in units
    _rounds: int = 0

    def read(self, units: Units) -> DataFrame:
        """The units as a DataFrame."""
        n = len(units.sizes)
        parts = [_table(units, at, min(n, at + _AT_ONCE)) for at in range(0, n, _AT_ONCE)]
        return self._kept(self.spark.createDataFrame(pa.concat_tables(parts)), "units")

    def remove(self) -> None:
        """Delete what was written."""
        context: Any = self.spark.sparkContext  # of Java
        path = context._jvm.org.apache.hadoop.fs.Path(self.folder)
        path.getFileSystem(context._jsc.hadoopConfiguration()).delete(path, True)

    def pairs(self, units: DataFrame) -> DataFrame:
        """Pairs of units to compare: those that share most keys, as `blocks.cpp` finds them."""
        held = units.select("unit", F.explode(F.array_distinct("keys")).alias("key"))
        most = self.blocking.most
        many = held.groupBy("key").agg(F.count("*").alias("n")).where(F.col("n") > most)
        many = self._kept(many.select("key"), "many")
        few = _blocks(held.join(many, "key", "left_anti")).where(F.size("members") > 1)
        looks = self._kept(few.select("members"), "few")
        looks = looks.select(F.explode("members").alias("unit"), "members")
        # of a key that many have the first ones are a block, for units with no other key
        many = held.join(many, "key")
        turn = F.row_number().over(Window.partitionBy("key").orderBy("unit"))
        first = _blocks(many.withColumn("turn", turn).where(F.col("turn") <= most))
        alone = many.join(looks.select("unit").distinct(), "unit", "left_anti")
        looks = looks.union(alone.join(first, "key").select("unit", "members"))
        near = looks.groupBy("unit").agg(F.flatten(F.collect_list("members")).alias("near"))
        found = near.mapInArrow(partial(nearest, self.blocking), _PAIR)
        return self._kept(found.distinct(), "pairs")

    def edges(self, pairs: DataFrame, clusters: DataFrame) -> DataFrame:
        """The gains of pairs of units."""
        found = self._scored(pairs, clusters, _PAIR)
        return self._kept(found.where(F.col("gain") >= self.least), "edges")

    def rounds(self, edges: DataFrame, clusters: DataFrame, few: int) -> Iterator[Round]:
        """Rounds until no merge gains, or there are at most so many edges."""
        while not few or edges.count() > few:
            self._rounds += 1
            merges = self._kept(_reciprocal(edges), "merges")
            if merges.isEmpty():
                return
            clusters = self._kept(_merged(clusters, merges), "clusters")
            rest, touched = _followed(edges, merges)
            columns = f"{_PAIR}, before int, gain_one int, gain_other int"
            scored = self._scored(touched, clusters, columns)
            edges = self._kept(scored.unionByName(rest, allowMissingColumns=True), "edges")
            rivals = _rivals(edges, self.certain)
            edges = edges.where(F.col("gain") >= self.least).select("one", "other", "gain")
            yield Round(_with_margins(merges, rivals), rivals, edges)

    def _scored(self, pairs: DataFrame, clusters: DataFrame, columns: str) -> DataFrame:
        """The pairs with the gain of each."""
        for name in ("other", "one"):
            pairs = pairs.join(_side(clusters, name), name)
        names = [one.split()[0] for one in columns.split(", ")]
        sides = [f"{what}_{name}" for name in ("one", "other") for what in ("size", "written")]
        found = pairs.select(*names, *sides)
        return found.mapInArrow(partial(gains, self.scoring), f"{columns}, gain int")

    def _kept(self, frame: DataFrame, name: str) -> DataFrame:
        """The same, from a file."""
        path = f"{self.folder}/{self._rounds:03}-{name}"
        frame.write.mode("overwrite").parquet(path)
        return self.spark.read.parquet(path)


class Round(NamedTuple):
    """What a round did, and the edges that it left."""

    merges: DataFrame
    rivals: DataFrame
    edges: DataFrame


def done(pairs: DataFrame, compared: DataFrame, rounds: list[Round]) -> Done:
    """What the rounds did, for the kernel."""
    if not rounds:
        none, edges = np.zeros((0, 3), np.int64), rows(compared, "one", "other", "gain")
        return Done(none, none, edges, edges[:, :2], pairs.count())
    merges = _all([one.merges for one in rounds]).orderBy("round", "into")
    rivals = _all([one.rivals for one in rounds])
    return Done(
        rows(merges, "gone", "into", "margin"),
        rows(rivals, "one", "other", "margin"),
        rows(rounds[-1].edges, "one", "other", "gain"),
        rows(compared, "one", "other"),
        pairs.count(),
    )


def _all(frames: list[DataFrame]) -> DataFrame:
    """The rows of all, with the number of each in `round`."""
    numbered = [frame.withColumn("round", F.lit(k)) for k, frame in enumerate(frames)]
    return reduce(DataFrame.union, numbered)


def rows(frame: DataFrame, *names: str) -> IntArray:
    """Columns of numbers, shape [rows, columns]."""
    table = frame.select(*names).toArrow()
    return np.stack([table.column(name).to_numpy() for name in names], axis=1)


def _table(units: Units, begin: int, end: int) -> pa.Table:
    """Some units as Arrow."""
    starts, key_starts = (at[begin : end + 1] for at in (units.starts, units.key_starts))
    written = units.written[starts[0] : starts[-1]]
    keys = key_numbers(units.keys[key_starts[0] : key_starts[-1]])
    at = ((starts - starts[0]) * written.itemsize).astype(np.int32)
    buffers = [None, pa.py_buffer(at), pa.py_buffer(written)]
    of_keys = pa.array((key_starts - key_starts[0]).astype(np.int32))
    return pa.table(
        {
            "unit": pa.array(np.arange(begin, end, dtype=np.int32)),
            "keys": pa.ListArray.from_arrays(of_keys, pa.array(keys)),
            "size": pa.array(units.sizes[begin:end].astype(np.int32)),
            "written": pa.BinaryArray.from_buffers(pa.binary(), end - begin, buffers),
        }
    )


def _blocks(held: DataFrame) -> DataFrame:
    return held.groupBy("key").agg(F.collect_list("unit").alias("members"))


def _reciprocal(edges: DataFrame) -> DataFrame:
    """Clusters that are each other's best partner: `into`, the smaller, `gone`, and the gain."""
    better = edges.where("gain > 0").withColumn("turn", _turn())
    sides = [
        better.select(F.col(one).alias("unit"), F.col(other).alias("to"), "gain", "turn")
        for one, other in (("one", "other"), ("other", "one"))
    ]
    best = (
        sides[0]
        .union(sides[1])
        .groupBy("unit")
        .agg(F.max(F.struct("gain", "turn", "to")).alias("best"))
    )
    pair = best.select(
        F.least("unit", "best.to").alias("into"),
        F.greatest("unit", "best.to").alias("gone"),
        F.col("best.gain").alias("gain"),
    )
    return (
        pair.groupBy("into", "gone")
        .agg(F.max("gain").alias("gain"), F.count("*").alias("n"))
        .where("n = 2")
        .drop("n")
    )


def _turn() -> Column:
    """The larger, the smaller the lot of two clusters is (`rounds.cpp`)."""
    x = F.shiftleft(F.col("one").cast("bigint"), 32).bitwiseOR(F.col("other").cast("bigint"))
    x = _times(x + F.lit(1), 0x9E3779B97F4A7C15)
    x = _times(_shifted(x, 30), 0xBF58476D1CE4E5B9)
    x = _times(_shifted(x, 27), 0x94D049BB133111EB)
    return _shifted(x, 31).bitwiseXOR(F.lit(_MOST))


def _times(x: Column, factor: int) -> Column:
    return x * F.lit(factor - (1 << 64))  # as a number of 64 bits with a sign


def _shifted(x: Column, bits: int) -> Column:
    return x.bitwiseXOR(F.shiftrightunsigned(x, bits))


def _side(clusters: DataFrame, name: str) -> DataFrame:
    """The clusters as one side of pairs."""
    columns = clusters.select("unit", "size", "written")
    return columns.toDF(name, f"size_{name}", f"written_{name}")


def _merged(clusters: DataFrame, merges: DataFrame) -> DataFrame:
    """The clusters after the merges."""
    moved = merges.select("into").union(merges.select("gone")).toDF("unit")
    rest = clusters.join(moved, "unit", "left_anti").select("unit", "size", "written")
    into, gone = (_side(clusters, name) for name in ("into", "gone"))
    made = merges.join(into, "into").join(gone, "gone")
    both = F.concat("written_into", "written_gone", F.lit(bytearray(TOGETHER)))
    size = F.col("size_into") + F.col("size_gone")
    return rest.union(made.select("into", size, both))


def _followed(edges: DataFrame, merges: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Edges between clusters that are as before, and those of clusters that have merged.

    Of the latter, what the best of the edges that now are one had gained (`before`), and what the
    merge of either side has gained.
    """
    moved = merges.select(F.col("gone").alias("unit"), "into", "gain").union(
        merges.select("into", "into", "gain")
    )
    for name in ("one", "other"):
        side = moved.toDF(name, f"into_{name}", f"gain_{name}")
        edges = edges.join(side, name, "left")
    merged = F.col("gain_one").isNotNull() | F.col("gain_other").isNotNull()
    rest = edges.where(~merged).select("one", "other", "gain")
    now = [F.coalesce(f"into_{name}", name) for name in ("one", "other")]
    swapped = now[0] > now[1]
    sides = [F.col("gain_one"), F.col("gain_other")]
    touched = edges.where(merged).select(
        F.least(*now).alias("one"),
        F.greatest(*now).alias("other"),
        "gain",
        F.when(swapped, sides[1]).otherwise(sides[0]).alias("gain_one"),
        F.when(swapped, sides[0]).otherwise(sides[1]).alias("gain_other"),
    )
    folded = (
        touched.where("one <> other")
        .groupBy("one", "other")
        .agg(
            F.max("gain").alias("before"),
            F.max("gain_one").alias("gain_one"),
            F.max("gain_other").alias("gain_other"),
        )
    )
    return rest, folded


def _rivals(scored: DataFrame, certain: int) -> DataFrame:
    """By merge, clusters that it kept apart, and by how much it was better (`note_rivals`)."""
    sides = []
    for one, other in (("one", "other"), ("other", "one")):
        gain = F.col(f"gain_{one}").cast("bigint")
        kept = gain + F.greatest(F.lit(0), "gain") - F.col("before")
        near = scored.where(gain.isNotNull() & (kept <= certain))
        margin = F.greatest(F.lit(0), kept).cast("int").alias("margin")
        sides.append(near.select(F.col(one).alias("one"), F.col(other).alias("other"), margin))
    return sides[0].union(sides[1])


def _with_margins(merges: DataFrame, rivals: DataFrame) -> DataFrame:
    closest = rivals.groupBy(F.col("one").alias("into")).agg(F.min("margin").alias("closest"))
    margin = F.least("gain", F.coalesce("closest", "gain")).alias("margin")
    return merges.join(closest, "into", "left").select("into", "gone", margin)
