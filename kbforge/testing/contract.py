"""What the contracts of all kinds share: finding and making the plugin under test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kbforge import registry


class Contract:
    """The tests of one kind; subclass it once for every plugin, or for every set of options.

    Attributes:
        kind: the plugin's kind, set by the kind's contract.
        name: the plugin's name; it is found through its entry point, as users find it.
        options: the options to construct it with.

    """

    kind: ClassVar[str]
    name: ClassVar[str]
    options: ClassVar[Mapping[str, object]] = {}

    def make(self) -> Any:
        """A new instance of the plugin; override it to test a class that is not installed."""
        return registry.create(self.kind, self.name, self.options)
