"""What an installation weighs: seconds and MB of the core, and what each extra adds.

    python examples/reproductions/install_size.py [EXTRA ...] [--pip-args ARGS]

Each row is a new virtual environment, into which pip installs a wheel of this repository and then
the extra, with the versions of constraints.txt and without pip's cache. The seconds depend on the
network and on what else the machine does. MB are what the files of site-packages occupy, without
pip. With --pip-args '--extra-index-url https://download.pytorch.org/whl/cpu' it is PyTorch's CPU
build that is weighed, on Linux.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

from shell import table

from kbforge.version import DISTRIBUTION

ROOT = Path(__file__).parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [name for name in project["optional-dependencies"] if name != "dev"]
    parser.add_argument("extras", nargs="*", metavar="EXTRA", help=", ".join(extras))
    parser.add_argument("--pip-args", default="", help="more arguments for pip")
    given = parser.parse_args()
    unknown = [name for name in given.extras if name not in extras]
    if unknown:
        parser.error(f"expected one of {', '.join(extras)}, got {unknown[0]}")
    with tempfile.TemporaryDirectory() as folder:
        words = given.pip_args.split()
        pip(["wheel", "--no-deps", "--wheel-dir", folder, str(ROOT)])
        (wheel,) = Path(folder).glob("*.whl")
        rows = []
        for number, extra in enumerate(["", *(given.extras or extras)]):
            where = Path(folder, f"venv-{number}")
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", where], check=True)
            begun, before = time.perf_counter(), megabytes(where)
            install(where, f"{DISTRIBUTION} @ {wheel.as_uri()}", words)
            if extra:
                begun, before = time.perf_counter(), megabytes(where)
                install(where, f"{DISTRIBUTION}[{extra}] @ {wheel.as_uri()}", words)
            cells = [f"{time.perf_counter() - begun:.0f}", f"{megabytes(where) - before:.0f}"]
            rows.append([f"`{extra}`" if extra else "(core)", *cells])
            print(*rows[-1], file=sys.stderr)
    print(table(["extra", "seconds", "MB"], rows))


def pip(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True)


def install(environment: Path, requirement: str, words: list[str]) -> None:
    constraints = ["-c", str(ROOT / "constraints.txt")]
    where = ["--python", str(environment / "bin" / "python"), "install", "--no-cache-dir"]
    pip([*where, *constraints, *words, requirement])


def megabytes(environment: Path) -> float:
    """What the files of its packages occupy, in blocks of the disk."""
    files = (path for path in (environment / "lib").rglob("*") if path.is_file())
    return sum(path.stat().st_blocks * 512 for path in files) / 1e6


if __name__ == "__main__":
    main()
