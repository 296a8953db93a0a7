"""A served store: its readers, search, writer, review and change feed."""

from __future__ import annotations

from kbforge_serve.background import Computations
from kbforge_serve.feed import Feed
from kbforge_serve.helpers import Helpers
from kbforge_serve.imports import Imports
from kbforge_serve.quality import Quality
from kbforge_serve.questions import Questions
from kbforge_serve.readers import Readers
from kbforge_serve.search import Search
from kbforge_serve.uploads import Uploads
from kbforge_serve.writer import Writer


class Service:
    """A store that is served; `gold` is as of `kbforge_serve.quality.Quality`.

    `helpers` (processes) compute slow answers; `computations` are the slow answers in progress.
    """

    def __init__(self, path: str, gold: str | None = None, helpers: int = 0) -> None:
        self.readers = Readers(path)
        if helpers:
            self.readers.helpers = Helpers(path, helpers)
        self.search = Search(self.readers)
        self.computations = Computations(self.readers)
        self.quality = Quality(self.readers, self.computations, gold)
        self.writer = Writer(path, self.readers.follow)
        self.questions = Questions(self.readers, self.writer)
        self.feed = Feed(self.readers)
        self.uploads, self.imports = Uploads(), Imports(self.readers, self.writer)

    def close(self) -> None:
        """End; no more requests are served."""
        self.writer.close()
        self.uploads.close()
        self.search.close()
        self.readers.close()
