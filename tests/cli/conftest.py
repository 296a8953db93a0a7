"""The program as users run it, in this process."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest

from kbforge.cli import main as program
from tests.cli.kb_files import files

__all__ = ["files"]


@pytest.fixture
def kbforge(monkeypatch, capfdbinary):
    """Runs the program; returns (exit code, stdout, stderr)."""

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "argv", ["kbforge", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stdin)))
        try:
            program.main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return run
