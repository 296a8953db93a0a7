"""The kernel as a library: found, checked and loaded when it is first asked for."""

from __future__ import annotations

import json
import math
import os
from ctypes import CDLL
from functools import lru_cache
from pathlib import Path

import numpy as np

from kbforge.errors import UsageError, quoted
from kbforge.kernel.build import ABOUT, HERE, LIBRARY, SWITCH

FOLDER = "KBFORGE_KERNEL_FOLDER"
"""Variable that names the folder of another library, such as one built to look for errors."""
WORKERS = "KBFORGE_WORKERS"
"""Variable that says how many threads the kernel uses, where nobody else does."""
_MOST_WORKERS = 8
_LARGEST_WORKERS = 256
_SLOWER = "clustering runs on the NumPy engine, which is slower"


def kernel_library() -> CDLL | None:
    """The kernel, None if there is none."""
    return None if _switched_off() else _loaded(_folder())[0]


def kernel_status() -> str:
    """Which kernel there is, or why there is none, in one line."""
    if _switched_off():
        return f"no kernel: {SWITCH}=0 switches it off; {_SLOWER}"
    return _loaded(_folder())[1]


def use_workers(workers: int) -> None:
    """Have the kernel use so many threads from now on, in processes that this one starts, too.

    Raises:
        UsageError: it is no such number.

    """
    _checked(str(workers))
    os.environ[WORKERS] = str(workers)


def workers() -> int:
    """How many threads the kernel uses; what comes out is the same for any number.

    Raises:
        UsageError: the environment says something else than a number of them.

    """
    said = os.environ.get(WORKERS)
    return min(_cores(), _MOST_WORKERS) if said is None else _checked(said)


def _checked(said: str) -> int:
    if said.isascii() and said.isdigit() and 1 <= int(said) <= _LARGEST_WORKERS:
        return int(said)
    raise UsageError(
        f"{WORKERS}: expected a number of workers from 1 to {_LARGEST_WORKERS}, got {quoted(said)}"
    )


def _cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _switched_off() -> bool:
    return os.environ.get(SWITCH) == "0"


def _folder() -> Path:
    return Path(os.environ.get(FOLDER, HERE))


@lru_cache(maxsize=4)
def _loaded(folder: Path) -> tuple[CDLL | None, str]:
    """The library of a folder, if it can be used, and its status."""
    from kbforge.kernel import binding

    told = _told(folder)
    if not (folder / LIBRARY).is_file():
        reason = told.get("none", "it was not built; install KBForge again")
        return None, f"no kernel: {reason}; {_SLOWER}"
    try:
        library = CDLL(str(folder / LIBRARY))
        binding.declare(library)
    except OSError as error:
        return None, f"no kernel: the library cannot be loaded ({error}); {_SLOWER}"
    except AttributeError:
        return None, f"no kernel: it belongs to another version; install KBForge again; {_SLOWER}"
    if library.kb_version() != binding.VERSION:
        return None, f"no kernel: it belongs to another version; install KBForge again; {_SLOWER}"
    if not _says_the_same(library):
        return None, f"no kernel: its exp and log are not those of this Python; {_SLOWER}"
    return library, f"compiled kernel ({told.get('compiler', 'of an unknown compiler')})"


def _told(folder: Path) -> dict[str, str]:
    try:
        told = json.loads((folder / ABOUT).read_text())
    except (OSError, ValueError):
        return {}
    return {key: str(value) for key, value in told.items()} if isinstance(told, dict) else {}


def _says_the_same(library: CDLL) -> bool:
    """Whether exp, log and powers are to the last bit those that Python calls."""
    x = np.random.default_rng(0).uniform(0.0, 30.0, 200)
    out = np.empty((4, len(x)))
    library.kb_functions(len(x), x.ctypes.data, out.ctypes.data)
    values = x.tolist()
    expected = [
        [math.exp(-value) for value in values],
        [math.log(value) for value in values],
        [math.log10(value) for value in values],
        [value**0.7 for value in values],
    ]
    return bool(out.tolist() == expected)
