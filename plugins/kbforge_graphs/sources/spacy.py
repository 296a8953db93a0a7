"""The spacy source: spaCy documents with entities, as JSON or DocBin.

JSON is the output of `doc.to_json()`, one document per line, in an array or alone: the keys `text`
and `ents` are read, or `spans` without `ents`, as Prodigy writes. Offsets are characters. A DocBin
is a file that ends in `.spacy`. spaCy itself (the extra `spacy`) reads it at once, so its size is
bounded.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from kbforge.contracts import OnBad
from kbforge.errors import BadRecord, KBForgeError, quoted
from kbforge.files.fragments import shown
from kbforge.files.io import called, read_small
from kbforge.registry import install_command
from kbforge_graphs.sources.spans import AnnotatedText, Span, SpanSource, span_of, words_at
from kbforge_plugins.sources.values import (
    JsonValue,
    json_values,
    list_in,
    object_of,
    read_values,
    text_in,
)

_DOCBIN = ".spacy"
_MOST_BYTES = 1 << 28
_MOST_UNPACKED = 1 << 30
_OF_SPANS = ("kb_id", "id")


class SpacySource(SpanSource):
    """Entities in documents of spaCy.

    Args:
        label: key of the gold entity, in an entity or a document: `kb_id` is the knowledge-base id
            that an entity linker gave; without it no fragment has a label.

    """

    endings: ClassVar = (_DOCBIN,)

    def __init__(self, label: str | None = None) -> None:
        self._label = label

    def texts(self, path: str, on_bad: OnBad) -> Iterator[AnnotatedText]:
        if path.lower().endswith(_DOCBIN):
            yield from self._docbin(path)
            return
        yield from read_values(json_values(path, on_bad), self._text, on_bad)

    def _text(self, value: JsonValue) -> AnnotatedText:
        where = value.where
        document = object_of(value.value, where, "")
        text = text_in(document, "text", where, "")
        key = "ents" if "ents" in document else "spans"
        spans = []
        for number, one in enumerate(list_in(document, key, where)):
            path = f"{key}[{number}]"
            entity = object_of(one, where, path)
            start, end = span_of(entity, where, path)
            words = words_at(text, start, end, where, path)
            kind = text_in(entity, "label", where, path, "")
            spans.append(Span(start, end, words, kind, self._gold(entity, document, where)))
        return AnnotatedText(value.number, where, value.raw, text, spans)

    def _gold(
        self, entity: Mapping[str, Any], document: Mapping[str, Any], where: str
    ) -> str | None:
        if self._label is None:
            return None
        value = entity.get(self._label, document.get(self._label))
        if isinstance(value, list) and len(value) == 1:
            (value,) = value  # Prodigy's answers are lists
        if value is not None and not isinstance(value, str):
            raise BadRecord(where, "a string, or a list of one", shown(value), self._label)
        return value or None

    def _docbin(self, path: str) -> Iterator[AnnotatedText]:
        try:
            from spacy.tokens import DocBin
            from spacy.vocab import Vocab
        except ImportError:
            raise KBForgeError(
                f"{quoted(path, 400)}: a DocBin needs spaCy, which is not installed: "
                f"{install_command('spacy')}"
            ) from None
        if self._label is not None and self._label not in _OF_SPANS:
            raise KBForgeError(
                f"{quoted(path, 400)}: a DocBin has the labels kb_id and id, "
                f"got {quoted(self._label)}"
            )
        content = read_small(path, "a DocBin of spaCy", _MOST_BYTES)
        try:
            _require_bounded(content, path)
            documents = DocBin().from_bytes(content)
            for number, document in enumerate(documents.get_docs(Vocab()), 1):
                yield self._of_document(document, number, f"{called(path)}:{number}")
        except KBForgeError:
            raise
        # spaCy lets errors of several libraries through, all of them about its input
        except Exception as error:
            got = quoted(f"{type(error).__name__}: {error}".splitlines()[0], 160)
            raise KBForgeError(
                f"{quoted(path, 400)}: expected a DocBin of spaCy, got something else ({got})"
            ) from error

    def _of_document(self, document: Any, number: int, where: str) -> AnnotatedText:
        text = document.text
        spans: list[Span] = []
        for entity in document.ents:
            start, end = entity.start_char, entity.end_char
            words = words_at(text, start, end, where, f"ents[{len(spans)}]")
            gold = getattr(entity, f"{self._label}_") if self._label else None
            spans.append(Span(start, end, words, entity.label_, gold or None))
        return AnnotatedText(number, where, text.encode(errors="replace"), text, spans)


def _require_bounded(content: bytes, path: str) -> None:
    """Refuse a file that expands beyond the memory limit."""
    inflate, size, rest = zlib.decompressobj(), 0, content
    most = min(_MOST_UNPACKED, max(1 << 25, 100 * len(content)))
    while rest and not inflate.eof:
        size += len(inflate.decompress(rest, 1 << 20))
        rest = inflate.unconsumed_tail
        if size > most:
            raise KBForgeError(
                f"{quoted(path, 400)}: expected a DocBin of at most {most:,} bytes unpacked, got a "
                "larger one"
            )
