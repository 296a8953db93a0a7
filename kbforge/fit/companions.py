"""What was found for a likelihood in earlier runs: alpha and a confidence map.

Each is read from the file that the choices name, else from the model bundle. A file that was made
for other choices is used all the same, and a note says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kbforge.contracts import Fragment, Likelihood
from kbforge.errors import UsageError
from kbforge.fit.calibration import CALIBRATION_FILE, Calibration, read_calibration
from kbforge.fit.choices import Choices
from kbforge.fit.choose import FromFile
from kbforge.fit.confidence import IN_BUNDLE, ConfidenceMap, Reading, read_confidence
from kbforge.fit.heard import Heard
from kbforge.fit.shipped import shipped_doubt
from kbforge.models.resolve import is_name


def named_calibration(choices: Choices) -> Calibration | None:
    """The calibration file that the choices name, if any.

    Raises:
        UsageError: they name an alpha, too.
        KBForgeError: it cannot be read.

    """
    if choices.calibration is None:
        return None
    if choices.alpha is not None:
        raise UsageError("--alpha and --calibration both say what alpha is; choose one")
    return read_calibration(choices.calibration)


def alpha_of(
    likelihood: Likelihood,
    choices: Choices,
    named: Calibration | None,
    from_file: FromFile,
    notes: list[str],
) -> float:
    """The alpha chosen, else the calibration's, else what the file says, else the likelihood's own.

    Args:
        likelihood: fitted to the file.
        choices: which alpha, calibration and likelihood.
        named: as of `named_calibration`.
        from_file: what the file says.
        notes: sentences for the user are added to them.

    Raises:
        KBForgeError: the bundle's calibration cannot be read.

    """
    if choices.alpha is not None:
        return choices.alpha
    if named is not None:
        _note_other_likelihood(choices, named, notes)
        return named.alpha
    bundle = _bundle(choices)
    if bundle is not None:
        bundled = bundle / CALIBRATION_FILE
        if bundled.is_file():
            return read_calibration(str(bundled)).alpha
    found = from_file.alpha(choices.likelihood_name, likelihood)
    if found is not None:
        notes += [found[1]] if found[1] else []
        return found[0]
    if bundle is not None and bundle.is_dir():
        notes.append(
            f"{choices.likelihood} has no calibration, so alpha is a guess; "
            "kbforge calibrate finds it (then --calibration or --alpha)"
        )
    return float(likelihood.default_alpha)


def confidence_of(
    fragments: Sequence[Fragment],
    choices: Choices,
    named: Calibration | None,
    heard: Callable[[], Heard],
    notes: list[str],
) -> Reading | None:
    """The map named, else that of the calibration named, of the model bundle, or the shipped one.

    Args:
        fragments: what will be clustered; nothing that ships says how sure vectors alone are.
        choices: which map, calibration and likelihood.
        named: as of `named_calibration`.
        heard: what the maps that ship hear of the file; asked for if they are used.
        notes: sentences for the user are added to them.

    Raises:
        KBForgeError: the file cannot be read.

    """
    found, where = None, choices.confidence_map
    if where is not None:
        found = read_confidence(where)
    elif named is not None:
        found, where = named.confidence, choices.calibration
    bundle = _bundle(choices)
    if found is None and bundle is not None:
        bundled = bundle / IN_BUNDLE
        where = str(bundled)
        found = read_confidence(where) if bundled.is_file() else None
    if found is None:
        described = any(fragment.properties for fragment in fragments)
        return shipped_doubt(heard(), choices.defaults) if described else None
    _note_other_choices(choices, found, str(where), notes)
    return found


def _bundle(choices: Choices) -> Path | None:
    """Where the likelihood was loaded from, if it was."""
    chosen = choices.likelihood
    return Path(chosen) if isinstance(chosen, str) and not is_name(chosen) else None


def _same(one: str, other: str) -> bool:
    # a model may since have moved, or be named from another folder
    return Path(one).name == Path(other).name


def _note_other_likelihood(choices: Choices, named: Calibration, notes: list[str]) -> None:
    used, options = choices.likelihood_name, choices.of("likelihood")
    if not _same(named.likelihood, used):
        notes.append(
            f"{choices.calibration} is a calibration of the likelihood {named.likelihood}, "
            f"used here with {used}"
        )
    elif dict(named.options) != {k: str(v) for k, v in options.items()}:
        notes.append(
            f"{choices.calibration} was made with other options of the likelihood: "
            f"{_listed(named.options)} there, {_listed(options)} here"
        )


def _note_other_choices(
    choices: Choices, found: ConfidenceMap, where: str, notes: list[str]
) -> None:
    used, clusterer = choices.likelihood_name, choices.clusterer_name
    if not _same(found.likelihood, used):
        notes.append(
            f"the confidence map {where} was fitted with the likelihood {found.likelihood}, used "
            f"here with {used}"
        )
    if found.clusterer != clusterer or found.temperature != choices.temperature:
        notes.append(
            f"the confidence map {where} was fitted with {found.clusterer} at temperature "
            f"{found.temperature:g}, used here with {clusterer} at {choices.temperature:g}"
        )


def _listed(options: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items()) or "none"
