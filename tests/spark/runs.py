"""Runs here and on Spark, side by side."""

from __future__ import annotations

from dataclasses import replace

from kbforge.contracts import Entity, Fragment
from kbforge.fit.choices import RunOptions
from kbforge.jobs.cluster import KnowledgeBase, cluster


def here_and_there(
    items: list[Fragment], likelihood: str, few: int = 0
) -> tuple[KnowledgeBase, KnowledgeBase]:
    """The knowledge bases of threads, and of Spark at the present session."""
    from kbforge_spark.clusterer import SparkBatch

    there = SparkBatch(few=few)
    return (
        cluster(items, RunOptions(likelihood=likelihood)),
        cluster(items, RunOptions(likelihood=likelihood, clusterer=there)),
    )


def assert_equal(here: KnowledgeBase, there: KnowledgeBase) -> None:
    assert entities(there) == entities(here)
    assert there.posterior.log_posterior == here.posterior.log_posterior
    assert there.posterior.model_evaluations == here.posterior.model_evaluations


def entities(kb: KnowledgeBase) -> list[Entity]:
    """The entities, without how they were made."""
    return [replace(entity, made=None) for entity in kb.entities]
