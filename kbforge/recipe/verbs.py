"""What a pipeline needs of verbs. Whoever runs a pipeline hands over how to find them.

    find_verb(("plugins", "list")) -> Verb

So a pipeline knows no command line. `kbforge run` finds the verbs that are installed; a test may
find toys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a verb.

    Attributes:
        flag: as an argument, such as "--alpha".
        is_switch: it takes no value, and is given or left out.
        off: the argument that turns the switch off; "" if there is none.
        repeats: it may be given several times.
        is_output: its value is the file or folder that the verb writes.
        default: its value if it is left out; "" if that is no text.

    """

    flag: str
    is_switch: bool = False
    off: str = ""
    repeats: bool = False
    is_output: bool = False
    default: str = ""

    @property
    def name(self) -> str:
        """As a pipeline file has it."""
        return self.flag.lstrip("-")


class Verb(Protocol):
    """Something that a step can run."""

    @property
    def program(self) -> str:
        """Name and version of what the verb belongs to: another version runs the step again."""
        ...

    @property
    def options(self) -> Mapping[str, Option]:
        """Its options by name."""
        ...

    def run(self, arguments: Sequence[str]) -> int:
        """Run it with the arguments of a command line; returns the exit code.

        Raises:
            KBForgeError: it failed, with its sentence and exit code.
            OSError: a file cannot be used.
            KeyboardInterrupt: it was interrupted.

        """
        ...


FindVerb: TypeAlias = Callable[[Sequence[str]], Verb]
"""The verb of that name and sub-commands; raises KBForgeError if there is none."""
