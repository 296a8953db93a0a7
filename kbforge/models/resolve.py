"""Likelihoods by name or by bundle, ready to cluster with, and the device that they run on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kbforge import registry
from kbforge.contracts import ConjugateLikelihood, Likelihood
from kbforge.errors import ModelError, UsageError
from kbforge.models.bundle import MANIFEST, read_bundle
from kbforge.registry.options import bind_options


def make_likelihood(name_or_path: str, options: Mapping[str, object] | None = None) -> Likelihood:
    """A likelihood plugin by name, or the one a model bundle (a folder) was trained for.

    Args:
        name_or_path: a registered name, or a path to a bundle; a name wins over a folder of the
            same name, which `./name` reaches.
        options: option -> value, checked against the constructor.

    Raises:
        PluginError: no plugin of that name.
        ModelError: the bundle is missing, damaged, or for something else.
        UsageError: an option the plugin does not have.

    """
    return _made(_plugin_of(name_or_path), name_or_path, options or {}, "likelihood")


def make_surrogate(
    name_or_path: str, options: Mapping[str, object] | None = None
) -> ConjugateLikelihood:
    """A surrogate: any conjugate likelihood, by name or bundle; errors as `make_likelihood`."""
    plugin = _plugin_of(name_or_path)
    if issubclass(registry.load("likelihoods", plugin), ConjugateLikelihood):
        made = _made(plugin, name_or_path, options or {}, "surrogate")
        if isinstance(made, ConjugateLikelihood):
            return made
    raise UsageError(f"{name_or_path} cannot be a surrogate: it has no posterior predictive")


def takes_device(name_or_path: str) -> bool:
    """Whether the likelihood of that name, or of that bundle, has a `device` option."""
    if is_name(name_or_path) or (Path(name_or_path) / MANIFEST).is_file():
        return bool(registry.load("likelihoods", _plugin_of(name_or_path)).takes_device)
    return False


def is_name(name_or_path: str) -> bool:
    """Whether a likelihood plugin has this name; it wins over a folder of the same name."""
    return name_or_path in registry.names("likelihoods")


def _plugin_of(name_or_path: str) -> str:
    """The name of the likelihood plugin, be it named or named by a bundle."""
    if is_name(name_or_path):
        return name_or_path
    path = Path(name_or_path)
    if not path.exists():
        if path.name != name_or_path:
            raise ModelError(f"there is no model at {name_or_path}")
        registry.find("likelihoods", name_or_path)  # raises, listing what there is
    return read_bundle(path).plugin


def _made(plugin: str, name_or_path: str, options: Mapping[str, object], role: str) -> Likelihood:
    made: Likelihood
    if is_name(name_or_path):
        made = registry.create("likelihoods", plugin, options, role)
        return made
    factory = registry.load("likelihoods", plugin)
    if not factory.loads_bundles:
        raise ModelError(f'{name_or_path}: the likelihood "{plugin}" does not load from bundles')
    bound = bind_options(factory, f"likelihood {plugin}", options)
    made = factory.from_bundle(Path(name_or_path), **bound)
    return made


def require_device(device: str) -> None:
    """Find out before long work that a device ("cpu" or "cuda") is not there.

    Raises:
        UsageError: no usable GPU; never a silent run on the CPU.
    """
    if device == "cpu":
        return
    import torch  # heavy; only a run that asks for a GPU pays for it

    if not torch.cuda.is_available():
        raise UsageError(
            f"no usable GPU: PyTorch {torch.__version__} finds no CUDA "
            "device (leave out --gpu to run on the CPU)"
        )
