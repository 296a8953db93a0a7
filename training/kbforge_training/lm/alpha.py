"""The alpha of a language model: found on labelled fragments that training has not read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from kbforge.contracts import Fragment
from kbforge.errors import KBForgeError
from kbforge.fit.alpha import CALIBRATION_FILE, to_toml
from kbforge.fit.calibrate import CalibrationSettings, calibrate
from kbforge.fit.choices import Choices
from kbforge.models.bundle import add_file
from kbforge_training.lm.sets import Entity

_MOST_TO_CALIBRATE = 500


def add_alpha(
    draft: Path,
    name: str,
    given: Sequence[Fragment] | None,
    held_out: Sequence[Entity],
    device: str,
    say: Callable[[str], None],
) -> float | None:
    """Add alpha to the draft of a bundle that will be called `name`; returns it.

    A failure costs the calibration, not the model: alpha can be found later.
    """
    fragments = _to_calibrate_on(held_out) if given is None else list(given)
    later = "kbforge calibrate finds alpha on labelled fragments"
    if not fragments:
        say(f"note: not calibrated: no labelled entity held out has two fragments; {later}")
        return None
    say(f"calibrating on {len(fragments):,} fragments")
    # the precision that is faster may be another one next time, and so would be the last digits
    options = {"likelihood": {"precision": "fp32"}} if device == "cpu" else {}
    choices = Choices(likelihood=str(draft), device=device, options=options)
    try:
        found = calibrate(fragments, choices, CalibrationSettings())
    except KBForgeError as error:
        say(f"note: not calibrated: {error}; {later}")
        return None
    if found.calibration.at_edge:
        say(f"note: not calibrated: the labels do not bound alpha; {later}")
        return None
    calibration = replace(found.calibration, likelihood=name)
    add_file(draft, CALIBRATION_FILE, to_toml(calibration))
    return calibration.alpha


def _to_calibrate_on(held_out: Sequence[Entity]) -> list[Fragment]:
    """Fragments of whole labelled entities in random order; none if all are of one fragment."""
    labelled = [entity for entity in held_out if entity[0].label is not None]
    chosen: list[Fragment] = []
    for number in np.random.default_rng(0).permutation(len(labelled)):
        if chosen and len(chosen) + len(labelled[number]) > _MOST_TO_CALIBRATE:
            break
        chosen += labelled[number]
    return chosen if len({f.label for f in chosen}) < len(chosen) else []
