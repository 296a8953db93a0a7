"""Bundles: folders with a trained model and a manifest of checksums; likelihoods by name.

    model/
      manifest.json      format, plugin kind and name, recipe, data, size and SHA-256 of each file
      counts.json        whatever the plugin saves: its own files, flat, never pickled
      calibration.toml   optional: alpha, as `kbforge calibrate` finds it
      confidence.toml    optional, added by `kbforge calibrate --confidence`

Loading is strict: a file that is missing, extra, changed or of a different format version is an
error that names the difference. Nothing in a bundle is ever executed. A bundle appears under its
name only when it is complete; a replacement keeps the old folder until the new one is in place.

A folder of default models has files with fixed names, and a manifest with their digests:

    manifest.json              as of a model bundle; it lists the files below that are there
    pairs.safetensors          the pair model
    confidence.safetensors     confidence maps (`kbforge.fit.confidence`)

`kbforge lab train-default` adds one part after another, and keeps the training data in the same
folder. So the manifest covers only these files, and each is verified when it is read.

A plugin's learned state in a store is read as strictly (`KeptReader`). A field or
array that is missing, of a different type or shape, or out of range is a ModelError that names it.
`together` combines several states under separate names."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import orjson
from numpy.typing import NDArray

from kbforge import registry
from kbforge.contracts import ConjugateLikelihood, LearnedState, Likelihood
from kbforge.errors import BadRecord, KBForgeError, ModelError, UsageError, option, quoted
from kbforge.files.io import (
    mode_of,
    open_output,
    put_in_place,
    reason_of,
    require_writable,
    sweep,
    temporary_folder,
)
from kbforge.files.kinds import what_is
from kbforge.files.records import Record, json_value
from kbforge.registry.options import bind_options
from kbforge.version import __version__

FORMAT = 1
MANIFEST = "manifest.json"

_MAX_MANIFEST_BYTES = 1 << 20
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_FIELDS = ("format", "kind", "plugin", "kbforge", "recipe", "data", "files")


@dataclass(frozen=True, slots=True)
class Bundle:
    """A verified bundle."""

    kind: str  # of the plugin, such as "likelihoods"
    plugin: str  # its name, such as "bigram"
    files: Mapping[str, bytes]  # name -> content, but the manifest; hashes checked
    recipe: Mapping[str, Any]  # how the model was trained (JSON)
    data: Mapping[str, Any]  # number of fragments that it was trained on, and their SHA-256
    kbforge: str = __version__  # version of the program that wrote it

    def require_of(self, plugin: str, where: str) -> None:
        """Refuse a bundle of another likelihood; errors name it `where`."""
        if (self.kind, self.plugin) != ("likelihoods", plugin):
            raise ModelError(f"{where} is a model for {quoted(self.plugin)}, expected {plugin}")


def write_bundle(folder: Path, bundle: Bundle) -> None:
    """Write a bundle, or replace one; a folder that is not a bundle is never replaced."""
    for name in bundle.files:
        if not _is_plain(name):
            raise ModelError(f'"{quoted(name)}" cannot be the name of a file in a model bundle')
    require_place(folder)
    try:
        _write(folder, bundle)
    except OSError as error:
        where = quoted(str(folder), 400)
        raise ModelError(f"cannot write {where}: {reason_of(error)}") from error


def require_place(folder: Path) -> None:
    """Check before long work that a bundle can be written."""
    if folder.exists() and not (folder / MANIFEST).is_file():
        raise ModelError(
            f"{quoted(str(folder), 400)} exists and is not a model bundle; choose another folder"
        )
    try:
        require_writable(str(folder))
    except KBForgeError as error:
        raise ModelError(str(error)) from None


_held: ContextVar[dict[Path, Bundle] | None] = ContextVar("bundles held", default=None)


@contextlib.contextmanager
def bundles_read_once() -> Iterator[None]:
    """Within the block, a bundle is read and verified only once."""
    before = _held.set({})
    try:
        yield
    finally:
        _held.reset(before)  # weights are large: nothing is held longer than it is needed


def read_bundle(folder: Path) -> Bundle:
    """Read and verify a bundle; a ModelError names the difference."""
    held = _held.get()
    if held is None:
        return _read(folder)
    key = folder.absolute()
    if key not in held:
        held[key] = _read(folder)
    return held[key]


def _read(folder: Path) -> Bundle:
    manifest = _read_manifest(folder)
    listed = manifest.table("files")
    try:
        present = {entry.name for entry in os.scandir(folder)} - {MANIFEST}
    except OSError as error:
        raise _unreadable(folder, error) from error
    for name in sorted(present - set(listed)):
        raise _damaged(folder, f'the file "{quoted(name)}" is not in the manifest')
    return Bundle(
        kind=manifest.get("kind", str),
        plugin=manifest.get("plugin", str),
        recipe=manifest.get("recipe", dict),
        data=manifest.get("data", dict),
        kbforge=manifest.get("kbforge", str),
        files={name: _read_file(folder, name, listed) for name in sorted(listed)},
    )


def add_file(folder: Path, name: str, content: bytes) -> None:
    """Add a file to a bundle, or replace the file of that name."""
    old = read_bundle(folder)
    files = {**old.files, name: content}
    bundle = Bundle(old.kind, old.plugin, files, old.recipe, old.data, old.kbforge)
    write_bundle(folder, bundle)


def read_listed(folder: Path, name: str, kind: str, most: int, writer: str) -> bytes:
    """One verified file, up to `most` bytes, of a folder whose manifest need not list all files.

    `kind` is the manifest's; errors name `writer`, the command that writes such folders.
    """
    manifest = _read_manifest(folder, writer)
    if (found := manifest.get("kind", str)) != kind:
        raise _damaged(folder, f'{MANIFEST} field "kind" should be {kind}, got {quoted(found)}')
    listed = manifest.table("files")
    if name not in listed:
        raise _damaged(folder, f'the file "{quoted(name)}" is not in the manifest ({writer})')
    size = listed.table(name).get("size", int)
    if size > most:
        raise _damaged(folder, f'"{name}" has {size:,} bytes, expected at most {most:,}')
    return _read_file(folder, name, listed)


def _is_plain(name: str) -> bool:
    return bool(_FILE_NAME.match(name)) and name != MANIFEST


def _manifest_of(bundle: Bundle) -> bytes:
    files = {
        name: {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in sorted(bundle.files.items())
    }
    manifest = {
        "format": FORMAT,
        "kind": bundle.kind,
        "plugin": bundle.plugin,
        "kbforge": bundle.kbforge,
        "recipe": dict(bundle.recipe),
        "data": dict(bundle.data),
        "files": files,
    }
    return orjson.dumps(manifest, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _write(folder: Path, bundle: Bundle) -> None:
    folder = Path(os.path.realpath(folder))  # a link to a bundle stays one
    sweep(folder.parent)
    with temporary_folder(folder.parent) as temporary:
        for name, content in {**bundle.files, MANIFEST: _manifest_of(bundle)}.items():
            with open(temporary / name, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            (temporary / name).chmod(mode_of(folder / name, 0o666))
        temporary.chmod(mode_of(folder, 0o777))
        put_in_place(temporary, folder)


def _read_manifest(folder: Path, writer: str = "kbforge train-ngram") -> Record:
    path = folder / MANIFEST
    if folder.is_file():
        where = quoted(str(folder), 400)
        raise ModelError(f"{where}: expected a model bundle (a folder), got {what_is(str(folder))}")
    if not folder.is_dir():
        raise ModelError(f"there is no model bundle at {quoted(str(folder), 400)}")
    if not path.is_file():
        raise ModelError(
            f"{quoted(str(folder), 400)} is not a model bundle: it has no {MANIFEST} "
            f"({writer} writes one)"
        )
    try:
        with open(path, "rb") as file:
            content = file.read(_MAX_MANIFEST_BYTES + 1)
    except OSError as error:
        raise _unreadable(path, error) from error
    if len(content) > _MAX_MANIFEST_BYTES:
        raise _damaged(folder, f"{MANIFEST} is larger than {_MAX_MANIFEST_BYTES:,} bytes")
    try:
        manifest = json_value(content, MANIFEST)
    except orjson.JSONDecodeError as error:
        raise _damaged(folder, f"{MANIFEST} is not JSON ({error})") from error
    except BadRecord as error:
        raise _damaged(folder, str(error)) from error
    if not isinstance(manifest, dict):
        raise _damaged(folder, f"{MANIFEST} is not a JSON object")

    def wrong(field: str, expected: str, got: str) -> ModelError:
        what = f'{MANIFEST} field "{quoted(field)}" should be {expected}, got {got}'
        return _damaged(folder, what)

    fields = Record(manifest, wrong)
    # the version comes first: a later format may well have other fields
    if (version := fields.get("format", int)) != FORMAT:
        raise ModelError(
            f"{quoted(str(folder), 400)} is a model bundle of format {version}, "
            f"but this kbforge {__version__} reads format {FORMAT}"
        )
    return fields.only(*_FIELDS)


def _read_file(folder: Path, name: str, listed: Record) -> bytes:
    if not _is_plain(name):
        raise _damaged(folder, f'{MANIFEST} names a file "{quoted(name)}" outside the bundle')
    entry = listed.table(name).only("size", "sha256")
    listed_size, listed_digest = entry.get("size", int), entry.get("sha256", str)
    path = folder / name
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise _damaged(folder, f'"{name}" is not a regular file')
    try:
        # the size is checked before anything is read, so that a swollen file costs no memory
        size = path.stat().st_size
        if size != listed_size:
            what = f'"{name}" has {size:,} bytes, but its manifest says {listed_size:,}'
            raise _damaged(folder, what)
        content = path.read_bytes()
    except FileNotFoundError:
        raise _damaged(folder, f'the file "{name}" of its manifest is missing') from None
    except OSError as error:
        raise _unreadable(path, error) from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != listed_digest:
        says = f"its manifest says {quoted(listed_digest, 12)}"
        raise _damaged(folder, f'"{name}" has SHA-256 {digest[:12]}…, {says}')
    return content


def _damaged(folder: Path, what: str) -> ModelError:
    return ModelError(f"{quoted(str(folder), 400)} is damaged: {what}")


def _unreadable(path: Path, error: OSError) -> ModelError:
    return ModelError(f"cannot read {quoted(str(path), 400)}: {reason_of(error)}")


FILES = ("pairs.safetensors", "confidence.safetensors")
_KIND = "defaults"
_WRITER = "kbforge lab train-default"
_MOST_BYTES = 64 << 20


def default_folder(given: str | None, name: str) -> Path:
    """The folder of a default model: the given one if it has the file, else the shipped one."""
    if given is not None and (Path(given) / name).is_file():
        return Path(given)
    return Path(str(files("kbforge_plugins").joinpath("bundles", "default")))


def read_default(folder: Path, name: str) -> bytes:
    """The verified content of a default model; a ModelError says what is wrong."""
    return read_listed(folder, name, _KIND, _MOST_BYTES, _WRITER)


def list_defaults(folder: Path) -> None:
    """Write the manifest of a folder of default models, some of which may be missing."""
    there = {name: (folder / name).read_bytes() for name in FILES if (folder / name).is_file()}
    with open_output(str(folder / MANIFEST)) as out:
        out.write(_manifest_of(Bundle(_KIND, "default", there, {}, {})))


def make_likelihood(name_or_path: str, options: Mapping[str, object] | None = None) -> Likelihood:
    """A likelihood plugin by name, or the one that a model bundle (a folder) was trained for.

    A name wins over a folder of the same name, which `./name` reaches.

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


def takes(name_or_path: str, option: Literal["device", "link"]) -> bool:
    """Whether the likelihood with that name, or of that bundle, has this option."""
    if is_name(name_or_path) or (Path(name_or_path) / MANIFEST).is_file():
        loaded = registry.load("likelihoods", _plugin_of(name_or_path))
        return bool(getattr(loaded, f"takes_{option}"))
    return False


def is_name(name_or_path: str) -> bool:
    """Whether a likelihood plugin has this name, which takes precedence over a folder."""
    return name_or_path in registry.names("likelihoods")


def _plugin_of(name_or_path: str) -> str:
    """The name of the likelihood plugin, given directly or by a bundle."""
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
    """Check before long work that a GPU is usable, so that a run never falls back to the CPU
    silently."""
    if device == "cpu":
        return
    try:
        import torch  # heavy; only a run that asks for a GPU pays for it
    except ModuleNotFoundError as error:
        raise registry.library_missing("torch", option("gpu")) or error from error
    if not torch.cuda.is_available():
        raise UsageError(
            f"no usable GPU: PyTorch {torch.__version__} finds no CUDA "
            f"device (leave out {option('gpu')} to run on the CPU)"
        )


Number = TypeVar("Number", bound=np.generic)

_BETWEEN = "."


def together(own: LearnedState, **parts: LearnedState | None) -> LearnedState:
    """A state that combines the states of parts under their names, without those that are None."""
    values, arrays = dict(own.values), dict(own.arrays)
    for name, part in parts.items():
        if part is not None:
            values[name] = dict(part.values)
            arrays |= {f"{name}{_BETWEEN}{key}": array for key, array in part.arrays.items()}
    return LearnedState(values, arrays)


class KeptReader:
    """A learned state of unknown origin, read field by field; errors name its plugin `whose`."""

    def __init__(self, kept: LearnedState, whose: str) -> None:
        self._kept, self._whose = kept, whose
        if not isinstance(kept.values, Mapping) or not isinstance(kept.arrays, Mapping):
            raise self.wrong("all of it", "values and arrays by name", "something else")
        self.fields = Record(kept.values, self.wrong)

    def wrong(self, field: str, expected: str, got: str) -> ModelError:
        """The error about a field."""
        return ModelError(
            f"{self._whose}: the saved state is damaged: {quoted(field, 100)}: expected {expected}"
            f", got {got}; kbforge refit fits it again"
        )

    def only(self, *fields: str) -> Record:
        """The values, which have exactly these fields."""
        for field in fields:
            if field not in self._kept.values:
                raise self.wrong(field, "a value", "nothing")
        return self.fields.only(*fields)

    def part(self, name: str) -> LearnedState:
        """The state of a part in a state that `together` combined."""
        values = self.fields.get(name, dict)
        start = f"{name}{_BETWEEN}"
        arrays = {
            name.removeprefix(start): array
            for name, array in self._kept.arrays.items()
            if isinstance(name, str) and name.startswith(start)
        }
        return LearnedState(values, arrays)

    def array(
        self,
        name: str,
        dtype: type[Number],
        length: int | None = None,
        least: float = -np.inf,
        most: float = np.inf,
        ascending: bool = False,
        width: int | None = None,
    ) -> NDArray[Number]:
        """An array of finite numbers from `least` to `most`, of shape [length] or [length, width].

        Without a length any length is accepted; `ascending` numbers may not decrease.
        """
        found = self._kept.arrays.get(name)
        expected = np.dtype(dtype)
        shape = (length,) if width is None else (length, width)
        said = f"numbers of type {expected} in the shape {_shape(shape)}"
        if not isinstance(found, np.ndarray):
            raise self.wrong(name, said, "nothing" if found is None else type(found).__name__)
        fits = found.ndim == len(shape) and all(
            n in (None, given) for n, given in zip(shape, found.shape, strict=True)
        )
        if found.dtype != expected or not fits:
            raise self.wrong(name, said, f"{found.dtype} in the shape {_shape(found.shape)}")
        if found.size:
            # NaN compares false
            low, high = found.min(), found.max()
            if not (np.isfinite(low) and np.isfinite(high) and least <= low and high <= most):
                raise self.wrong(
                    name, f"finite numbers from {least:g} to {most:g}", f"{low:g} to {high:g}"
                )
        if ascending and (found[1:] < found[:-1]).any():
            raise self.wrong(name, "ascending numbers", "others")
        return np.ascontiguousarray(found)


def _shape(shape: tuple[int | None, ...]) -> str:
    return "[" + ", ".join("n" if n is None else str(n) for n in shape) + "]"
