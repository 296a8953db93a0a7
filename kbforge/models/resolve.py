"""Likelihoods by name or by bundle, ready to cluster with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kbforge import registry
from kbforge.contracts import Bundled, ConjugateLikelihood, Fragment, Likelihood, SelfFitting
from kbforge.errors import ModelError, UsageError
from kbforge.models.bundle import MANIFEST, read_bundle
from kbforge.registry.options import bind_options, option_parameters

DEFAULT_ALPHA = 1.0


def make_likelihood(
    name_or_path: str, options: Mapping[str, object] | None = None, kind: str = "likelihoods"
) -> Likelihood:
    """A likelihood plugin by name, or the one a model bundle (a folder) was trained for.

    Args:
        name_or_path: a registered name, or a path to a bundle; a name wins over a folder of the
            same name, which `./name` reaches.
        options: option -> value, checked against the constructor.
        kind: "likelihoods" or "surrogates".

    Raises:
        PluginError: no plugin of that name.
        ModelError: the bundle is missing, damaged, or for something else.
        UsageError: an option the plugin does not have.

    """
    if name_or_path in registry.names(kind):
        made: Likelihood = registry.create(kind, name_or_path, options)
        return made
    path = Path(name_or_path)
    if not path.exists():
        if path.name != name_or_path:
            raise ModelError(f"there is no model at {name_or_path}")
        registry.find(kind, name_or_path)  # raises, listing what there is
    if not (path / MANIFEST).is_file():
        raise ModelError(f"{name_or_path} is not a model bundle: it has no {MANIFEST}")
    plugin = read_bundle(path).plugin
    factory = registry.load("likelihoods", plugin)
    if not isinstance(factory, type) or not issubclass(factory, Bundled):
        raise ModelError(f'{name_or_path}: the likelihood "{plugin}" does not load from bundles')
    bound = bind_options(factory, f"likelihood {plugin}", options or {})
    return factory.from_bundle(path, **bound)


def make_surrogate(
    name_or_path: str, options: Mapping[str, object] | None = None
) -> ConjugateLikelihood:
    """A surrogate by name or bundle; errors as `make_likelihood`."""
    surrogate = make_likelihood(name_or_path, options, kind="surrogates")
    if not isinstance(surrogate, ConjugateLikelihood):
        raise UsageError(f"{name_or_path} cannot be a surrogate: it has no posterior predictive")
    return surrogate


def takes_device(name_or_path: str) -> bool:
    """Whether the likelihood of that name, or of that bundle, has a `device` option."""
    name = name_or_path
    if not is_name(name) and (Path(name_or_path) / MANIFEST).is_file():
        name = read_bundle(Path(name_or_path)).plugin
    return is_name(name) and "device" in option_parameters(registry.load("likelihoods", name))


def is_name(name_or_path: str) -> bool:
    """Whether a likelihood plugin has this name; it wins over a folder of the same name."""
    return name_or_path in registry.names("likelihoods")


def fit_to_input(model: Any, fragments: Sequence[Fragment]) -> str | None:
    """Let a self-fitting model see the (unlabelled) input; returns what it says of it."""
    return model.fit(fragments) if isinstance(model, SelfFitting) else None


def default_alpha(model: Likelihood) -> float:
    """The concentration to use when nothing was calibrated: the model's own, if it has one."""
    return float(getattr(model, "default_alpha", DEFAULT_ALPHA))
