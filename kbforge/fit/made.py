"""How a knowledge base was made, so that `kbforge explain` can use the same models again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from kbforge.contracts import Made
from kbforge.errors import ModelError, quoted
from kbforge.fit.choices import Choices, called
from kbforge.fit.making import Prepared, default_options
from kbforge.models.bundle import MANIFEST
from kbforge.models.defaults import default_folder
from kbforge.models.resolve import is_name
from kbforge.version import __version__

_ELSEWHERE = {"likelihood", "alpha", "seed", "options", "device"}
"""Choices that `Made` has under names of their own, and one that changes no result."""
_NOT_OF_RESULTS = {"executor"}
"""Kinds of plugins that change no result."""


def made_of(prepared: Prepared, choices: Choices) -> Made:
    """How the entities are made.

    Args:
        prepared: has the likelihood and the alpha.
        choices: as the user gave them.

    """
    plain = Choices()
    given: dict[str, str | float] = {}
    for one in fields(Choices):
        value = getattr(choices, one.name)
        if one.name not in _ELSEWHERE and value != getattr(plain, one.name):
            given[one.name] = value if isinstance(value, str | int | float) else called(value)
    options = {
        kind: {name: _text(value) for name, value in of_kind.items()}
        for kind, of_kind in choices.options.items()
        if of_kind and kind not in _NOT_OF_RESULTS
    }
    if choices.likelihood is None and not choices.of("likelihood"):
        taken = default_options(prepared.likelihood, choices.defaults)
        options |= {"likelihood": taken} if taken else {}
    return Made(
        kbforge=__version__,
        likelihood=prepared.likelihood,
        alpha=prepared.alpha,
        seed=choices.seed,
        model=model_digest(prepared.likelihood, options.get("likelihood", {})),
        choices=given,
        options=options,
    )


def choices_of(made: Made, kb: str) -> Choices:
    """Likelihood, alpha, temperature and options that a knowledge base was made with.

    Args:
        made: how it was made.
        kb: its name, for messages.

    Raises:
        ModelError: the model is not there, or is another one.

    """
    options = dict(made.options.get("likelihood", {}))
    digest = model_digest(made.likelihood, options)
    plain = is_name(made.likelihood)
    if digest != made.model or (digest is None and not plain):
        was = "not there" if digest is None else "not what it was"
        version = "" if made.kbforge == __version__ else f" by kbforge {made.kbforge:.20}"
        raise ModelError(
            f"{quoted(kb, 400)} was made{quoted(version)} with the model "
            f"{quoted(made.likelihood, 400)}, which is {was}; put it back, or name --likelihood "
            "to explain by another"
        )
    return Choices(
        likelihood=made.likelihood,
        alpha=made.alpha,
        temperature=float(made.choices.get("temperature", 1.0)),
        options={"likelihood": options},
    )


def model_digest(likelihood: str, options: Mapping[str, object]) -> str | None:
    """SHA-256 of a bundle's manifest, or of the default model that a likelihood reads; None: none.

    Args:
        likelihood: name, or path of a bundle.
        options: of the likelihood.

    """
    if not is_name(likelihood):
        return _digest(Path(likelihood) / MANIFEST)
    name, model = f"{likelihood}.safetensors", options.get("model")
    if model is not None and Path(str(model)).is_file():
        return _digest(Path(str(model)))
    return _digest(default_folder(None if model is None else str(model), name) / name)


def _digest(path: Path) -> str | None:
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _text(value: object) -> str:
    """An option as the command line gives it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float | Path) else called(value)
