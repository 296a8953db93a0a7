"""Search: finds entities by words of their fragments.

An index of words (`kbforge_serve.words`) says where to look; what is shown comes from the store. A
search takes these steps until it has enough fragments:

1. ids: the text is the id of an entity or of a fragment, or the beginning of an entity's;
2. whole words, all of them in the fragment's names;
3. all words anywhere, and then with the last one as a beginning;
4. if these are few: fragments with words that differ by one edit, and candidates with similar names
   from the store's own index, which tolerates more errors.

The entities of these fragments are ordered by the similarity of a value to the text.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import structs
from rapidfuzz import fuzz

from kbforge.contracts import Fragment
from kbforge.errors import UsageError, quoted
from kbforge.kb.entities import all_described
from kbforge.store.pages import numbers_from_bytes
from kbforge.store.store import Store
from kbforge.store.tables import ask, rows_of
from kbforge_serve.answers import Answer, EntityReference
from kbforge_serve.facts import references
from kbforge_serve.helpers import aside
from kbforge_serve.readers import Readers
from kbforge_serve.words import OnIndexed, WordIndex, naming_of, properties_of, words_of

MOST_RESULTS = 100
"""Maximum number of results of one answer."""
_BLOCK = 96
"""Fragments that are ordered together, so that a very common word is answered as fast as another;
further pages use further blocks."""
_MOST_FOUND = 10 * _BLOCK  # fragments of one search; more words narrow it down
_FEW = 10  # fragments; with fewer, typing errors are considered
_SIMILAR = 70.0  # percent that a value found in spite of errors must resemble the text
_MOST_WORDS = 12  # of a text that are looked up
_LONGEST_TEXT = 1_000
_SHOWN = 6  # attributes of a result
_LONGEST_SHOWN = 200  # characters of a value
_ALIKE = 80.0  # percent that a word must resemble one of the text to be marked
_STEP = 5.0  # percent of similarity that count less than the size of an entity
_MOST_COMPARED = 16  # values of an attribute
_MOST_READ = 100  # fragments of an entity that is shown
_LONGEST_CURSOR = 8
_HIGHEST = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class _Match:
    """A fragment that was found, its entity, and the value that resembles a text most."""

    number: int
    entity: str
    properties: Mapping[str, Sequence[str]]
    attribute: str | None = None
    value: str | None = None
    whole: bool = False  # whether the value has all words of the text
    score: float = 0.0  # percent


class MatchedValue(Answer, frozen=True):
    """The value of a fragment by which a search found its entity."""

    attribute: str
    value: str


class SearchResult(EntityReference, frozen=True):
    """An entity that a search found, with its best values of some attributes."""

    values: dict[str, str]
    matched: MatchedValue | None


class SearchResults(Answer, frozen=True):
    """The entities that a search found; `next` is the cursor of the next ones."""

    results: list[SearchResult]
    next: str | None


class Search:
    """The search of one store."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self.words = WordIndex(readers)

    def prepare(self, on_indexed: OnIndexed | None = None) -> None:
        """Make or update the index; otherwise the first search does so."""
        self._has_models()  # they load while it is indexed
        self.words.prepare(on_indexed)

    def find(self, text: str, limit: int = 20, cursor: str | None = None) -> SearchResults:
        """The entities that match a text, best first.

        Raises a UsageError if the text is too long, or the limit or the cursor is invalid.
        """
        begin = _begin(text, limit, cursor)
        self.words.prepare()
        with self._readers.store() as store:
            self.words.catch_up(store)
            end = begin + limit
            ranked = self._ranked(store, text.strip(), end + 1)
            shown = {match.entity: match for match in ranked[begin:end]}
            entities = references(self._readers, store, list(shown))
            values = _best_values(store, [one.id for one in entities])
            results = [_result(shown[one.id], one, values[one.id]) for one in entities]
            return SearchResults(results, str(end) if end < len(ranked) else None)

    def close(self) -> None:
        """Close the search."""
        self.words.close()

    def _ranked(self, store: Store, text: str, most: int) -> list[_Match]:
        """The first entities that match a text, best first, each by its best fragment."""
        words = words_of(text)[:_MOST_WORDS]
        plain, names = " ".join(words), naming_of(store)
        by_id = dict.fromkeys(_with_ids(store, text))
        found = list(by_id | dict.fromkeys(self.words.with_words(words, _MOST_FOUND)))
        best: dict[str, _Match] = {}
        for begin in range(0, len(found), _BLOCK):
            if len(best) >= most:
                break
            hits = _located(store, found[begin : begin + _BLOCK])
            _order([_matched(hit, plain, names) for hit in hits], by_id, best)
        if words and len(found) < _FEW:
            more = [n for n in self.words.misspelt(words, _BLOCK) if n not in found]
            if not found and not more and self._has_models():  # what takes longest comes last
                more = candidates(self._readers, text)
            similar = [_matched(hit, plain, names) for hit in _located(store, more)]
            _order([match for match in similar if match.score >= _SIMILAR], (), best)
        return list(best.values())

    def _has_models(self) -> bool:
        """Whether the models are loaded, which happens at the start."""
        helpers = self._readers.helpers
        if helpers is not None:
            return helpers.warm
        with self._readers.store() as store:
            return self._readers.loaded(store) is not None


@aside
def candidates(readers: Readers, text: str) -> list[int]:
    """First fragments of clusters that the store's own index finds, most keys first."""
    with readers.store() as store:
        index = readers.models(store)[0].models.index
        if index is None:
            return []
        # names in several attributes: any of the words may be any of them
        names = sorted(naming_of(store))
        values = (text,) if len(names) == 1 else tuple(dict.fromkeys([text, *text.split()]))
        with readers.scoring():  # an index has caches, which one thread at a time may change
            keys = index.keys(Fragment("?", dict.fromkeys(names, values)))
        counts = Counter[int]()
        for led in store.pages.postings(keys).values():
            if not led.closed:
                counts.update(led.families)
        return [number for number, _ in counts.most_common(_BLOCK // 2)]


def parts_of(value: str, text: str) -> list[tuple[str, bool]]:
    """A value in parts, and whether each is a word that a search for a text finds."""
    wanted = words_of(text)

    def is_found(part: str) -> bool:
        return any(
            said.startswith(word) or fuzz.ratio(said, word) >= _ALIKE
            for said in words_of(part)
            for word in wanted
        )

    return [(part, is_found(part)) for part in re.split(r"(\W+)", value) if part]


def _begin(text: str, limit: int, cursor: str | None) -> int:
    """The place of the first result, of a search that is possible."""
    if len(text) > _LONGEST_TEXT:
        raise UsageError(
            f"search: expected at most {_LONGEST_TEXT:,} characters, got {len(text):,}"
        )
    if not 1 <= limit <= MOST_RESULTS:
        raise UsageError(f"limit: expected a number from 1 to {MOST_RESULTS}, got {limit}")
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < _LONGEST_CURSOR):
        raise UsageError(f'cursor: expected the value of "next", got "{quoted(cursor)}"')
    return int(cursor)


# --- what is read of the store ---


def _order(matches: Sequence[_Match], first: Collection[int], best: dict[str, _Match]) -> None:
    """Add the entities of some matches to `best`, the best ones first.

    Fragments found by id come `first`, then values with all words of the text. Ties go to the
    entity with the most fragments: an entity with a hundred names, of which only one is the text,
    is not what the text names.
    """

    def closeness(match: _Match) -> tuple[bool, bool, float]:
        return (match.number in first, match.whole, match.score // _STEP)

    as_close = Counter((match.entity, closeness(match)) for match in matches)

    def rank(match: _Match) -> tuple[bool, bool, float, int, int]:
        by_id, whole, close = found = closeness(match)
        return (not by_id, not whole, -close, -as_close[match.entity, found], match.number)

    for match in sorted(matches, key=rank):
        best.setdefault(match.entity, match)


def _with_ids(store: Store, text: str) -> list[int]:
    """Fragments of entities whose id is the text or begins with it, or with the text as id."""
    if not text or "\0" in text:
        return []
    rows = store.database.connection
    begins = "SELECT id FROM entity WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3"
    ids = [id for (id,) in ask(rows, begins, (text, text + _HIGHEST, _FEW))]
    if not ids:
        with contextlib.suppress(UsageError):
            ids = list(store.now(text))
    firsts = (
        int(numbers_from_bytes(members).min())
        for _, _, members in rows_of(rows, "entity", "id", ids)
    )
    return [*firsts, *store.pages.numbers([text]).values()]


def _located(store: Store, numbers: Sequence[int]) -> list[_Match]:
    """The existing ones among the fragments, in this order, with their entities."""
    rows = store.database.connection
    found = {
        n: (home, line) for n, _, _, home, _, line in rows_of(rows, "fragment", "number", numbers)
    }
    homes = sorted({home for home, _ in found.values()})
    holder: dict[int, str] = {}
    for id, _, members in rows_of(rows, "entity", "subproblem", homes):
        holder.update(dict.fromkeys(numbers_from_bytes(members).tolist(), id))
    return [
        _Match(n, holder[n], properties_of(found[n][1]))
        for n in numbers
        if n in found and n in holder
    ]


def _matched(hit: _Match, plain: str, names: Collection[str]) -> _Match:
    """The value of a fragment that is most similar to some words; names first."""
    best, wanted = hit, {*plain.split()}
    for of_names in (True, False):
        for attribute, values in hit.properties.items():
            if (attribute in names) is not of_names:
                continue
            for value in values[:_MOST_COMPARED]:
                said = words_of(value[:_LONGEST_SHOWN])
                score = fuzz.token_sort_ratio(plain, " ".join(said))
                score = score if of_names else score / 2
                whole = of_names and wanted.issubset(said)
                if (whole, score) > (best.whole, best.score):
                    best = replace(hit, attribute=attribute, value=value, whole=whole, score=score)
        if best.score >= _SIMILAR:
            break
    return best


def _best_values(store: Store, ids: Sequence[str]) -> dict[str, dict[str, str]]:
    """The best values of the first attributes of entities, by id."""
    rows = rows_of(store.database.connection, "entity", "id", ids)
    members = {id: numbers_from_bytes(held).tolist()[:_MOST_READ] for id, _, held in rows}
    found = store.pages.fragments([n for held in members.values() for n in held])
    made = all_described([[found[n] for n in held] for held in members.values()], store.corpus)
    return {
        id: {
            attribute: values[0].value[:_LONGEST_SHOWN]
            for attribute, values in [*one.properties.items()][:_SHOWN]
        }
        for id, one in zip(members, made, strict=True)
    }


def _result(match: _Match, entity: EntityReference, values: dict[str, str]) -> SearchResult:
    """A result: the entity, its best values, and the value that was found."""
    matched = None
    if match.attribute is not None and match.value is not None:
        matched = MatchedValue(match.attribute, match.value[:_LONGEST_SHOWN])
    return SearchResult(**structs.asdict(entity), values=values, matched=matched)
