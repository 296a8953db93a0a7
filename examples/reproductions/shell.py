"""Run the command line as a user does, and read its JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def data_folder() -> Path:
    """The folder of real data that KBFORGE_DATA names."""
    name = os.environ.get("KBFORGE_DATA")
    if not name:
        sys.exit("KBFORGE_DATA is not set; it names the folder of real data sets")
    return Path(name)


def kbforge(*arguments: object) -> str:
    """Standard output of `kbforge ARGUMENTS`; the script ends if it fails."""
    command = [sys.executable, "-m", "kbforge.cli.main", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout


def kbforge_json(*arguments: object) -> Any:
    """The object that `kbforge ARGUMENTS --json` prints."""
    return json.loads(kbforge(*arguments, "--json"))


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; all columns but the first to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
