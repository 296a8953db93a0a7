"""A bare machine: it has Python, PyTorch, NumPy and SciPy, this folder and no network.

What it lacks, `make gpu-pack` has put into build/gpu-pack on another machine:

    pack.json    for which Python the wheels are
    wheels/      packages that KBForge imports; those that this machine lacks are unpacked beside
                 the pack
    site/        what an installation would say of KBForge
    kernel/      the compiled kernel
    *.zst        the corpus, with the confusable sets beside it, for `make gpu-train`

Where KBForge is installed, none of it but the corpus is used. This module imports the standard
library only.
"""

import importlib.util
import json
import os
import platform
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACK = ROOT / "build" / "gpu-pack"
SOURCES = (ROOT, *(ROOT / name for name in ("plugins", "training", "grammars")))
GIVEN = ("torch", "numpy", "scipy")
"""What is too large to bring along."""


def enter(pack: Path = PACK) -> None:
    """Make KBForge importable, in this process and in those that it starts; or end with a reason.

    Call it before anything else is imported.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if not _installed(project["name"]):
        folders = [*map(str, SOURCES), str(pack / "site"), str(unpacked(pack))]
        sys.path[:0] = folders
        os.environ["PYTHONPATH"] = os.pathsep.join(folders)
        if (pack / "kernel").is_dir():
            os.environ.setdefault("KBFORGE_KERNEL_FOLDER", str(pack / "kernel"))
    missing = [name for name in GIVEN if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(f"{sys.executable} has no {', '.join(missing)}; choose another with GPU_PYTHON=")


def unpacked(pack: Path) -> Path:
    """The folder of the packages that this machine lacks."""
    about = pack / "pack.json"
    if not about.is_file():
        sys.exit(
            f"KBForge is not installed and {pack} is missing: make gpu-pack makes it elsewhere"
        )
    wanted = json.loads(about.read_text(encoding="utf-8"))["python"]
    found = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if (wanted, "x86_64") != (found, platform.machine()):
        sys.exit(
            f"{pack} is for Python {wanted} on x86_64, this is Python {found} on "
            f"{platform.machine()}: make gpu-pack PACK_PYTHON={found}"
        )
    site = pack.with_name("gpu-site")
    for wheel in sorted((pack / "wheels").glob("*.whl")):
        name, version, *_ = wheel.name.split("-")
        if not _installed(name) and not (site / f"{name}-{version}.dist-info").is_dir():
            with zipfile.ZipFile(wheel) as packed:
                packed.extractall(site)
    return site


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
