"""Toy verbs of a stranger's distribution, which `test_pipeline_run` installs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kbforge.errors import KBForgeError

CALLS: list[str] = []
"""The verbs that ran."""
Output = Annotated[str, typer.Option("--output", "-o")]
join, upper, tell, leave = (typer.Typer(add_completion=False) for _ in range(4))


@join.command(name="join")
def _join(files: list[str], output: Output, sep: str = "") -> None:
    CALLS.append("join")
    Path(output).write_text(sep.join(Path(file).read_text() for file in files))


@upper.command(name="upper")
def _upper(
    file: str,
    output: Output,
    settings: Annotated[list[str] | None, typer.Option("--set")] = None,
    log: str = "",
) -> None:
    CALLS.append("upper")
    text = Path(file).read_text()
    if "fail" in text:
        raise KBForgeError("the text says fail")
    if "stop" in text:
        raise KeyboardInterrupt
    if "exit" in text:
        raise typer.Exit(3)
    if "disk" in text:
        raise OSError(28, "No space left on device", "disk")
    if log:
        Path(log).write_text("log")
    Path(output).write_text(text.upper())


@tell.command(name="tell")
def _tell(file: str) -> None:
    CALLS.append("tell")
    print(Path(file).read_text())
    sys.stdout.buffer.write("bytes: é\n".encode())
    if "LOUD" in Path(file).read_text():
        print("x" * (1 << 19))


@leave.command(name="leave")
def _leave(file: str, output: Output) -> None:
    CALLS.append("leave")
