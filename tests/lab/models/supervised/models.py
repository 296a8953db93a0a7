"""A small model of supervised clustering, made without training."""

from collections.abc import Sequence
from pathlib import Path

from kbforge.contracts import Fragment
from kbforge.models.bundle import Bundle, write_bundle
from kbforge.testing import examples
from kbforge_lab.likelihoods.supervised import (
    PLUGIN,
    Comparison,
    ModelChoice,
    Settings,
    Supervised,
    SupervisedModel,
    files_of,
    slimmed,
)

COMPARED = (Comparison("colour", "edit"), Comparison("name", "rare-words"))
SETTINGS = Settings(
    dimensions=3,
    model=1,
    choices={
        1: ModelChoice(1.0, 0.3, 0.9),
        2: ModelChoice(1.0, 1.0, 0.8),
        3: ModelChoice(0.5, 1.0, 0.7),
    },
    factor=3.0,
)


def small_model(fragments: Sequence[Fragment] = (), vectors: bool = False) -> SupervisedModel:
    """A model of these labelled fragments; of the examples if there are none."""
    labelled = fragments or examples.fragments(18)
    return SupervisedModel(COMPARED, vectors, slimmed(labelled, COMPARED, vectors), SETTINGS)


def fitted(fragments: Sequence[Fragment]) -> Supervised:
    """The small model as a likelihood, fitted to fragments."""
    likelihood = Supervised.of(small_model())
    likelihood.fit(fragments)
    return likelihood


def write(trained: SupervisedModel, folder: Path) -> Path:
    """The bundle of a model, without card and calibration."""
    write_bundle(folder, Bundle("likelihoods", PLUGIN, files_of(trained), {}, {}))
    return folder
