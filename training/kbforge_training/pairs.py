"""Trains the likelihood `pairs` on from labels: writes a bundle that any later file can use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kbforge.contracts import Fragment
from kbforge.errors import KBForgeError
from kbforge.fit.alpha import fingerprint
from kbforge.fit.choices import require_link
from kbforge.fit.labels import read_labels
from kbforge.models.bundle import Bundle, require_place, write_bundle
from kbforge_plugins.likelihoods.pairs.likelihood import Pairs
from kbforge_plugins.likelihoods.pairs.odds import MODEL


def train(
    fragments: Sequence[Fragment], labels: str, folder: Path, link: str | None = None
) -> dict[str, Any]:
    """Learn from the labels of some of the fragments and write the bundle.

    Args:
        fragments: those of the labels and, if there are any, others like them.
        labels: a file, see `kbforge.fit.labels`.
        folder: the bundle's.
        link: as the likelihood has it.

    Returns:
        Numbers of `fragments`, of `labels` (pairs to learn from, of two fragments that do not state
        the same) and of added `trees`. `loss_before` is the mean log loss of the labels by the
        model that ships, `loss_after` by what the labels of other entities teach, both in nats.

    Raises:
        KBForgeError: no fragments, or no label of two that are compared.
        ModelError: the folder is something else.

    """
    require_place(folder)
    if not fragments:
        raise KBForgeError("there are no fragments to train on")
    require_link(fragments, link)
    told, plain = read_labels(labels), Pairs(link=link)
    plain.fit(fragments)
    model = told.teach(plain, fragments)
    lesson, layer = model.lesson, model.layer
    assert lesson is not None
    trees = len(model.trees.roots) - len(plain.trees.roots)
    recipe = {"link": link, "layer": list(layer), "trees": trees, "labels": lesson.answers}
    data = {"fragments": len(fragments), "sha256": fingerprint(fragments)}
    write_bundle(folder, Bundle("likelihoods", "pairs", {MODEL: model.to_bytes()}, recipe, data))
    return {
        "fragments": len(fragments),
        "labels": lesson.answers,
        "trees": trees,
        "loss_before": lesson.loss_before,
        "loss_after": lesson.loss_after,
    }
