"""Keywords of the Python API: checked like options, with errors that name keywords.

Sentences are written once, for the command line: "--alpha and --calibration both say what alpha
is". `in_keywords` says them with keywords: "alpha and calibration both say what alpha is".
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from kbforge import registry
from kbforge.contracts import CandidateIndex, Clusterer, ConjugateLikelihood, Likelihood
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.fit.choices import NO_INDEX, Choices
from kbforge.registry.options import bind_options

PLUGINS: Mapping[str, str] = {
    "clusterer": "clusterers",
    "likelihood": "likelihoods",
    "surrogate": "likelihoods",
    "index": "indexes",
}
"""The kinds of plugin that a clustering uses, by the keyword that chooses one."""

_NAMES = "|".join(sorted((field.name.replace("_", "-") for field in fields(Choices)), key=len))
_SETTING = re.compile(r"--set ([a-z]+\.[a-z_]+)")
_GPU = re.compile(r"--gpu\b")
_PLUGIN = re.compile(rf"--({'|'.join(PLUGINS)}) ([a-z][a-z0-9-]*)")
_OPTION = re.compile(rf"--({_NAMES}|partial|fragments|labels|policy|on-duplicate)(?![a-z-])")


class ChoiceKeywords(TypedDict, total=False):
    """The keywords of a clustering: the fields of `Choices`, which explains them."""

    clusterer: str | Clusterer
    likelihood: str | Path | Likelihood | None
    surrogate: str | Path | ConjugateLikelihood | None
    index: str | CandidateIndex | None
    exact: bool
    particles: int | None
    max_evals: int | None
    alpha: float | None
    calibration: str | Path | None
    confidence_map: str | Path | None
    defaults: str | Path | None
    answers: str | Path | None
    estimate: str
    entities: int | None
    alternatives: str
    link: str | None
    temperature: float
    seed: int
    device: str
    options: Mapping[str, Mapping[str, object]]


def choices_from(keywords: Mapping[str, object], function: str) -> Choices:
    """The choices that keywords make, of the types that the fields of `Choices` have.

    Args:
        keywords: as in `ChoiceKeywords`.
        function: whose keywords they are, for the error.

    Raises:
        UsageError: an unknown keyword, or a value of the wrong type.

    """
    own: dict[str, Any] = {}
    named: dict[str, object] = {}
    for name, value in keywords.items():
        is_object = name in PLUGINS and not (value is None or isinstance(value, str | Path))
        (own if is_object else named)[name] = (
            value.item() if isinstance(value, np.generic) else value
        )
    for name, contract in (("likelihood", Likelihood), ("surrogate", ConjugateLikelihood)):
        if name in own and not isinstance(own[name], contract):
            raise UsageError(
                f"{function}: {name}: expected a name, a model folder or a {contract.__name__}, "
                f"got {quoted(own[name])}"
            )
    options = _options(named.pop("options", {}), function)
    return Choices(**bind_options(Choices, function, named), **own, options=options)


@contextlib.contextmanager
def in_python() -> Iterator[None]:
    """Errors within it speak of keywords."""
    try:
        yield
    except KBForgeError as error:
        error.args = tuple(in_keywords(a) if isinstance(a, str) else a for a in error.args)
        raise


def in_keywords(sentence: str) -> str:
    """A sentence about options of the command line as one about keywords."""
    sentence = _SETTING.sub(r"options.\1", sentence)
    sentence = _GPU.sub('device="cuda"', sentence)
    sentence = _PLUGIN.sub(_plugin, sentence)
    return _OPTION.sub(lambda found: found[1].replace("-", "_"), sentence)


def _plugin(found: re.Match[str]) -> str:
    """`--likelihood gaussian` as `likelihood="gaussian"`; another word is no value."""
    keyword, word = found.groups()
    known = (*registry.names(PLUGINS[keyword]), *((NO_INDEX,) if keyword == "index" else ()))
    return f'{keyword}="{word}"' if word in known else found[0]


def _options(given: object, function: str) -> Mapping[str, Mapping[str, object]]:
    if not isinstance(given, Mapping):
        raise UsageError(f"{function}: options: expected a dictionary, got {quoted(given)}")
    for kind, values in given.items():
        if kind not in PLUGINS:
            known = ", ".join(sorted(PLUGINS))
            raise UsageError(
                f'{function}: options: unknown kind "{quoted(kind)}", expected one of {known}'
            )
        if not isinstance(values, Mapping):
            raise UsageError(
                f"{function}: options.{kind}: expected a dictionary, got {quoted(values)}"
            )
    return given
