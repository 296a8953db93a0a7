"""Little real distributions, written to a folder that subprocesses get on their path."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest

PLAIN = {"TERM": "dumb", "NO_COLOR": "1", "COLUMNS": "200"}


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


def within(
    *arguments: str, path: Path | str = "", cwd: Path | None = None, **environment: str
) -> Result:
    """Run the program in this process, with `path` in front of the installed packages."""
    from kbforge import registry
    from kbforge.cli.main import main

    known, folders = {*sys.modules}, [one for one in str(path).split(os.pathsep) if one]
    with pytest.MonkeyPatch.context() as patch:
        for folder in reversed(folders):
            patch.syspath_prepend(folder)
        for name, value in (PLAIN | environment).items():
            patch.setenv(name, value)
        patch.delenv("FORCE_COLOR", raising=False)
        patch.chdir(cwd or Path.cwd())
        patch.setattr(sys, "argv", ["kbforge", *arguments])
        streams = [io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2)]
        forget(registry)
        try:
            with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
                main()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
        finally:
            for name in {*sys.modules} - known:
                if str(getattr(sys.modules[name], "__file__", "")).startswith((*folders,)):
                    del sys.modules[name]
            forget(registry)
    out, err = (stream.detach().getvalue().decode() for stream in streams)
    return Result(code, out, err)


def forget(registry: ModuleType) -> None:
    """Have the registry look again at what is installed."""
    registry._scan.cache_clear()
    registry._extras.cache_clear()


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
    done = subprocess.run(
        [sys.executable, *arguments],
        env=inherited | PLAIN | {"PYTHONPATH": str(path or "")} | environment,
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
