"""Little real distributions, written to a folder that subprocesses get on their path."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Distribution:
    """One distribution: its metadata files and its modules."""

    name: str
    version: str = "1.0"
    entry_points: dict[str, dict[str, str]] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)
    requires: tuple[str, ...] = ()

    def write(self, folder: Path) -> Path:
        """Write it as an installer would; returns the dist-info folder."""
        info = folder / f"{self.name.replace('-', '_')}-{self.version}.dist-info"
        info.mkdir(parents=True)
        lines = ["Metadata-Version: 2.1", f"Name: {self.name}", f"Version: {self.version}"]
        lines += [f"Requires-Dist: {requirement}" for requirement in self.requires]
        (info / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")
        groups = []
        for group, entries in self.entry_points.items():
            groups.append(f"[{group}]")
            groups += [f"{name} = {target}" for name, target in entries.items()]
        (info / "entry_points.txt").write_text("\n".join(groups) + "\n", encoding="utf-8")
        for module, source in self.modules.items():
            (folder / f"{module}.py").write_text(source, encoding="utf-8")
        return info


def kbforge(
    *arguments: str, path: Path | None = None, cwd: Path | None = None, **environment: str
) -> Result:
    """Run the program in a subprocess, with `path` in front of the installed packages."""
    return python("-m", "kbforge.cli.main", *arguments, path=path, cwd=cwd, **environment)


def python(
    *arguments: str, path: Path | None = None, cwd: Path | None = None, **environment: str
) -> Result:
    """Run Python in a subprocess, with `path` in front of the installed packages."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "PYTHONPATH")}
    plain = {"TERM": "dumb", "NO_COLOR": "1", "COLUMNS": "200", "PYTHONPATH": str(path or "")}
    done = subprocess.run(
        [sys.executable, *arguments],
        env=inherited | plain | environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


@dataclass
class Result:
    """What a subprocess left behind."""

    code: int
    out: str
    err: str
