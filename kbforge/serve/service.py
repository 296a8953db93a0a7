"""What all doors ask: one store with its readers."""

from __future__ import annotations

from kbforge.serve.readers import Readers


class Service:
    """A store that is served."""

    def __init__(self, path: str) -> None:
        self.readers = Readers(path)

    def close(self) -> None:
        """End: nothing is asked any more."""
        self.readers.close()
