"""A commented pipeline file to start from."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from kbforge.errors import KBForgeError, UsageError, quoted

FILE_NAME = "pipeline.toml"


def template() -> str:
    """The text of the file."""
    return files("kbforge.recipe").joinpath("template.toml").read_text("utf-8")


def write_template(folder: str, force: bool = False) -> Path:
    """Write `pipeline.toml` into a folder, which is made if it is missing.

    Raises:
        UsageError: there is one already and `force` is not set.
        KBForgeError: it cannot be written.

    """
    target = Path(folder) / FILE_NAME
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(target, "w" if force else "x", encoding="utf-8") as out:
            out.write(template())
    except FileExistsError as error:
        if target.parent.is_dir():
            raise UsageError(f"{quoted(str(target), 400)} exists; --force overwrites it") from error
        raise UsageError(f"{quoted(folder, 400)} is not a folder") from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise KBForgeError(f"cannot write {quoted(str(target), 400)}: {reason}") from error
    return target
