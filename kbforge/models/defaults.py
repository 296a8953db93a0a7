"""A folder of default models: files of known names, and a manifest with their digests.

    manifest.json              as of a model bundle; it lists the files below that are there
    pairs.safetensors          the pair model
    judge.safetensors          what a likelihood and an alpha are chosen by
    doubt.*                    confidence maps (`kbforge.fit.maps`)

`kbforge lab train-default` adds one part after the other, and keeps what it trained them on in the
same folder. So the manifest accounts for these files alone, and each is verified when it is read.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from kbforge.models.bundle import Bundle, read_listed, write_manifest

FILES = (
    "pairs.safetensors",
    "judge.safetensors",
    "doubt.toml",
    "doubt.pairs.safetensors",
    "doubt.entities.safetensors",
)
_KIND = "defaults"
_WRITER = "kbforge lab train-default"
_MOST_BYTES = 64 << 20


def default_folder(given: str | None, name: str) -> Path:
    """The folder that has a default model: the one given if it has the file, else what ships."""
    if given is not None and (Path(given) / name).is_file():
        return Path(given)
    return Path(str(files("kbforge_plugins").joinpath("bundles", "default")))


def read_default(folder: Path, name: str) -> bytes:
    """The verified content of a default model.

    Raises:
        ModelError: it is missing or damaged, or the folder has no manifest that lists it.

    """
    return read_listed(folder, name, _KIND, _MOST_BYTES, _WRITER)


def list_defaults(folder: Path) -> None:
    """Write the manifest of a folder of default models, of which some may not be there."""
    there = {name: (folder / name).read_bytes() for name in FILES if (folder / name).is_file()}
    write_manifest(folder, Bundle(_KIND, "default", there, {}, {}))
