"""An environment with what KBForge always needs, and nothing else.

    python -m tests.core_environment FOLDER

Its packages are links to those of the environment that runs this, so nothing is downloaded. KBForge
itself is not in it.
"""

import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from kbforge.version import DISTRIBUTION


def required(distribution: str) -> Iterator[str]:
    """What a distribution needs without any extra, directly and through others."""
    seen: set[str] = set()
    waiting = [distribution]
    while waiting:
        for line in metadata.requires(waiting.pop()) or ():
            needed = Requirement(line)
            if needed.name in seen or (needed.marker and not needed.marker.evaluate({"extra": ""})):
                continue
            seen.add(needed.name)
            # what an extra of another distribution brings would have to be followed, too
            assert not needed.extras, line
            waiting.append(needed.name)
            yield needed.name


def make(folder: Path, *others: str) -> Path:
    """Make the environment, with some more distributions; returns its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    said = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    packages = Path(said.stdout.strip())
    for name in (*required(DISTRIBUTION), *others):
        installed = metadata.distribution(name)
        for part in {file.parts[0] for file in installed.files or ()} - {"..", "__pycache__"}:
            (packages / part).symlink_to(Path(str(installed.locate_file(part))))
    return python


if __name__ == "__main__":
    make(Path(sys.argv[1]))
