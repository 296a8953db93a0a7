"""What all doors ask: one store with its readers and its writer."""

from __future__ import annotations

from kbforge.serve.readers import Readers
from kbforge.serve.writer import Writer


class Service:
    """A store that is served."""

    def __init__(self, path: str) -> None:
        self.readers = Readers(path)
        self.writer = Writer(path)

    def close(self) -> None:
        """End: nothing is asked any more."""
        self.writer.close()
        self.readers.close()
