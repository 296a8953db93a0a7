"""What all doors ask: one store with its readers, search, writer and review."""

from __future__ import annotations

from kbforge.serve.questions import Questions
from kbforge.serve.readers import Readers
from kbforge.serve.search import Search
from kbforge.serve.writer import Writer


class Service:
    """A store that is served."""

    def __init__(self, path: str) -> None:
        self.readers = Readers(path)
        self.search = Search(self.readers)
        self.writer = Writer(path)
        self.questions = Questions(self.readers, self.writer)

    def close(self) -> None:
        """End: nothing is asked any more."""
        self.writer.close()
        self.search.close()
        self.readers.close()
