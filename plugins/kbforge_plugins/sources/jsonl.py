"""The jsonl source: canonical fragments, or the REBEL/KeBAB shape, one JSON object a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.source import OnBad, Source
from kbforge.files.jsonl import read_located


class JsonlSource(Source):
    """JSON lines, plain, gzip or zstd. There are no options."""

    def __init__(self) -> None:
        self.where = ""
        self.counts: Counter[str] = Counter()

    def read(self, inputs: Sequence[str], on_bad: OnBad) -> Iterator[Fragment]:
        """Yield one fragment a line."""
        for path in inputs:
            for self.where, fragment in read_located(path, on_bad):
                yield fragment
