"""Rounds on Spark in one process group."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kbforge import datasets
from kbforge.errors import UsageError
from kbforge.files.fragments import read_fragments
from kbforge.fit.choices import RunOptions
from kbforge.jobs.cluster import cluster
from tests.people import people
from tests.spark.runs import assert_equal, here_and_there

MASTER = "local[2]"
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("few", [0, 300])
def test_people_are_those_of_one_machine(spark: Any, few: int) -> None:
    assert_equal(*here_and_there(people(120, seed=1), "attributes", few))


def test_customers_by_pairs_are_those_of_one_machine(spark: Any) -> None:
    assert_equal(*here_and_there(datasets.customers(), "pairs", few=1_500))


@pytest.mark.data
def test_titles_are_those_of_one_machine(spark: Any) -> None:
    cora = Path(os.environ["KBFORGE_DATA"]) / "cora/cora_1879.jsonl"
    items = list(read_fragments(str(cora)))
    assert_equal(*here_and_there(items, "attributes", few=5_000))


def test_constraints_are_refused(spark: Any) -> None:
    from kbforge_spark.clusterer import SparkBatch

    choices = RunOptions(likelihood="attributes", link="town", clusterer=SparkBatch())
    with pytest.raises(UsageError, match="need the clusterer batch"):
        cluster(people(4, seed=1), choices)
