"""Common code of all contract tests, and tests of the laws of commands."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, ClassVar

from kbforge import registry


class Contract:
    """The tests of one kind; subclass it once for every plugin, or for every set of options.

    Attributes:
        kind: the plugin's kind, set by the kind's contract.
        name: the plugin's name; its entry point is used, as for users.
        options: the options to construct it with.

    """

    kind: ClassVar[str]
    name: ClassVar[str]
    options: ClassVar[Mapping[str, object]] = {}

    def make(self) -> Any:
        """A new instance of the plugin; override it to test a class that is not installed."""
        return registry.create(self.kind, self.name, self.options)


_HEAVY = ("torch", "datasets", "pyarrow", "numpy", "scipy", "tokenizers")


class CommandContract(Contract):
    """A verb supports `--help`, has docstrings, and is fast to import."""

    kind: ClassVar[str] = "commands"

    def make(self) -> Any:
        """The verb's Typer app."""
        return registry.load(self.kind, self.name)

    def test_help_is_light_and_says_what_the_verb_does(self) -> None:
        """The help page of the program imports every verb, so none may import large modules."""
        program = (
            "import sys; from kbforge.cli.main import app\n"
            f"try: app([{self.name!r}, '--help'], prog_name='kbforge')\n"
            "except SystemExit as end: assert not end.code, end.code\n"
            f"print('HEAVY:', [m for m in {_HEAVY} if m in sys.modules])"
        )
        plain = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"}
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | plain,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        *page, heavy = done.stdout.splitlines()
        assert heavy == "HEAVY: []"
        assert any(f"kbforge {self.name}" in line for line in page)

    def test_is_documented(self) -> None:
        import typer

        command: Any = typer.main.get_command(self.make())
        for sub in [command, *getattr(command, "commands", {}).values()]:
            assert sub.help, f"{sub.name} has no docstring"
            undocumented = [
                p.name
                for p in sub.params
                if not getattr(p, "help", "") and not getattr(p, "hidden", False)
            ]
            assert undocumented == [], f"{sub.name}: parameters without help"
