"""Trains the likelihood `attributes`: learns rates, measures the index, writes a bundle.

Without labels the rates come from a greedy clustering of a sample (`attributes.fitting`); with
labels from the gold clusters. Either way the bundle's calibration is the alpha under which as many
entities are expected as were found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from kbforge.clustering.rules import DirichletProcess
from kbforge.contracts import Fragment
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.fit.alpha import CALIBRATION_FILE, Calibration, fingerprint, to_toml
from kbforge.indexes.recall import IndexRecall, recall_of
from kbforge.indexes.selective import Selective
from kbforge.models.bundle import Bundle, require_place, write_bundle
from kbforge.texts.kinds import KINDS, Kind
from kbforge.texts.statements import StatedValues
from kbforge_plugins.calibrators import gold_clusters
from kbforge_plugins.likelihoods.attributes.fitting import (
    FittedAttributes,
    fit_labelled,
    fit_unlabelled,
    vocabularies_of,
)
from kbforge_plugins.likelihoods.attributes.likelihood import (
    RATES_FILE,
    VALUES_FILE,
    AttributeModel,
)
from kbforge_plugins.likelihoods.attributes.urn import rates_to_toml

_OBJECTIVE = "expected entities"


def train(
    fragments: Sequence[Fragment],
    folder: Path,
    kinds: Mapping[str, str] | None = None,
    use_labels: bool = False,
) -> dict[str, Any]:
    """Learn from the fragments and write the bundle.

    Args:
        fragments: labels, where there are any, measure the index.
        folder: the bundle's.
        kinds: attribute -> kind, for those whose values mislead.
        use_labels: learn from the gold clusters.

    Returns:
        Numbers of `fragments` and of those in the `sample` that the rates were learned from,
        whether they were `labelled`, `alpha`, the rates and the number of different values by
        attribute (`attributes`), and with labels how well the `index` finds (`IndexRecall`).

    Raises:
        KBForgeError: no fragments, no attributes, or no labels where they are to be used.
        UsageError: a kind that does not exist, or of an attribute that no fragment has.
        ModelError: the folder is something else.

    """
    require_place(folder)
    if not fragments:
        raise KBForgeError("there are no fragments to train on")
    said = StatedValues.of(fragments)
    vocabularies = vocabularies_of(said, _checked(kinds or {}))
    if not vocabularies:
        raise KBForgeError("the fragments have no attributes to train on, or blank ones only")
    for attribute in kinds or {}:
        if attribute not in vocabularies:
            known = ", ".join(quoted(name) for name in vocabularies)
            raise UsageError(
                f'--kind: no fragment has an attribute "{quoted(attribute)}"; attributes: {known}'
            )
    gold = gold_clusters(fragments)
    index = Selective()
    index.learn(said)
    if use_labels:
        if not gold:
            raise KBForgeError("--labels: no fragment has a label")
        fitted = fit_labelled(fragments, gold, vocabularies)
    else:
        fitted = fit_unlabelled(fragments, said, vocabularies, index, AttributeModel)
    write_bundle(folder, _bundle(fitted, fragments, use_labels))
    labelled = [fragment for fragment in fragments if fragment.label is not None]
    found = recall_of(index, labelled) if gold else None
    return _summary(fitted, len(fragments), use_labels, found)


def _summary(
    fitted: FittedAttributes, fragments: int, use_labels: bool, recall: IndexRecall | None
) -> dict[str, Any]:
    return {
        "fragments": fragments,
        "sample": fitted.sample,
        "labelled": use_labels,
        "alpha": fitted.alpha,
        "attributes": {
            name: {
                "kind": rates.kind,
                "values": len(fitted.vocabularies[name]),
                "concentration": rates.concentration,
                "weights": dict(rates.mixture),
            }
            for name, rates in fitted.rates.items()
        },
        "index": None if recall is None else asdict(recall),
    }


def _checked(kinds: Mapping[str, str]) -> dict[str, Kind]:
    out: dict[str, Kind] = {}
    for attribute, name in kinds.items():
        found = [kind for kind in KINDS if kind == name]
        if not found:
            raise UsageError(
                f'--kind: there is no kind "{quoted(name)}"; kinds: {", ".join(KINDS)}'
            )
        out[attribute] = found[0]
    return out


def _bundle(fitted: FittedAttributes, fragments: Sequence[Fragment], use_labels: bool) -> Bundle:
    digest = fingerprint(fragments)
    calibration = Calibration(
        alpha=fitted.alpha,
        objective=_OBJECTIVE,
        value=DirichletProcess(fitted.alpha).expected_clusters(len(fragments)),
        at_edge="",
        likelihood="attributes",
        fragments=len(fragments),
        sha256=digest,
    )
    counts = {name: v.counts for name, v in fitted.vocabularies.items()}
    return Bundle(
        kind="likelihoods",
        plugin="attributes",
        files={
            RATES_FILE: rates_to_toml(fitted.rates),
            VALUES_FILE: orjson.dumps(counts),
            CALIBRATION_FILE: to_toml(calibration),
        },
        recipe={"labels": use_labels, "sample": fitted.sample},
        data={"fragments": len(fragments), "sha256": digest},
    )
