"""How two names are related as words.

    same       THE PORTER, PORTER; OpenAI, Open AI
    form       ACME INC., ACME; STATE OF MISSISSIPPI, MISSISSIPPI
    title      MR. SCROOGE, SCROOGE
    order      MINISTRY OF FINANCE, FINANCE MINISTRY; JOHN F. KENNEDY, KENNEDY, JOHN
    initials   EU, EUROPEAN UNION
    aside      SCROOGE'S NEPHEW (FRED), FRED
    head       CHRISTMAS GOOSE, GOOSE; SAM RIVERA, RIVERA
    start      BOB CRATCHIT, BOB
    part       CHRISTMAS DINNER, CHRISTMAS; GHOST OF MARLEY, MARLEY
    number     PHANTOMS, PHANTOM
    spelling   SHAKESPEARE, SHAKESPEAR
    unlike     GPT-3, GPT-4; MR. FEZZIWIG, MRS. FEZZIWIG; SCROOGE AND MARLEY, SCROOGE
    sibling    GHOST OF CHRISTMAS PAST, GHOST OF CHRISTMAS PRESENT; BOB CRATCHIT, PETER CRATCHIT
    apart      BOB CRATCHIT, CLERK; ALPHAGO, ALPHAZERO

Words are compared without accents, case and punctuation. The head of a phrase is its last word, or
the last one before a preposition. Unlike are names that differ in a figure, in titles that exclude
each other, or in that one is of several things.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from rapidfuzz.distance import OSA

from kbforge.texts import normalised


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ARTICLES = _words("a an the le la les el los las der die das")
_LINKING = _words("of in at by for from on with to as de du des von van del della di da au aux")
_AND = _words("and or und et y vs versus")
HE = _words("mr sir lord master king prince father uncle brother monsieur herr senor")
SHE = _words("mrs ms miss lady madam mistress queen princess mother aunt sister madame frau senora")
_OLD, _YOUNG = _words("old older"), _words("young younger little")
_TITLES = HE | SHE | _OLD | _YOUNG
_TITLES |= _words(
    "dr doctor prof professor agent president vice minister chancellor senator governor mayor "
    "judge justice general colonel captain major lieutenant sergeant detective inspector officer "
    "director chairman saint pope bishop reverend rev pastor late dear poor former"
)
_KINDS_OF_PLACES = _words(
    "state city town village kingdom republic province county district region country isle island "
    "commonwealth federation"
)
_FIRMS = _words(
    "inc incorporated ltd limited llc llp corp corporation co company plc gmbh ag sa nv bv"
)
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*['’]?", re.UNICODE)
_ASIDE = re.compile(r"\(([^()]*)\)")
_LONGEST = 200
_LEAST_SPELLED = 6  # letters


@dataclass(frozen=True, slots=True)
class NameWords:
    """A name as words."""

    said: tuple[str, ...]  # all words but articles
    core: tuple[str, ...]  # without titles, legal forms and "state of"; not empty if `said` is not
    titles: frozenset[str]
    head: int  # how many words of the core its phrase has, up to a preposition
    aside: tuple[str, ...]  # the core of what stands in parentheses

    @property
    def spelled(self) -> str:
        """The letters of its core."""
        return "".join(self.core).replace("-", "")

    @property
    def stated(self) -> str:
        """The letters of all its words."""
        return "".join(self.said).replace("-", "")

    @property
    def letters(self) -> frozenset[str]:
        """Its single letters."""
        return frozenset(word for word in self.core if len(word) == 1)

    @property
    def abbreviation(self) -> str:
        """What may be initials: a single word, or single letters; else ""."""
        single = len(self.core) == 1 or len(self.letters) == len({*self.core}) > 1
        return self.spelled if single else ""

    @property
    def initials(self) -> tuple[str, ...]:
        """Its initials, with and without those of linking words; none of a single word."""
        if len(self.core) < 2:
            return ()
        of_all = (word[0] for word in self.core)
        of_main = (word[0] for word in self.core if word not in _LINKING | ARTICLES | _AND)
        return tuple({"".join(of_all): None, "".join(of_main): None})

    @property
    def several(self) -> bool:
        """Whether it is of several things."""
        return not _AND.isdisjoint(self.said)


@lru_cache(maxsize=1 << 16)
def words_of_name(name: str) -> NameWords:
    """The words of a name."""
    name = name[:_LONGEST]
    asides = _ASIDE.findall(name)
    plain = _ASIDE.sub(" ", name) if asides else name
    said = _without_articles(plain) or _without_articles(name)
    titles, core = _split(said)
    at = next((i for i, word in enumerate(core) if i and word in _LINKING), len(core))
    aside = _split(_without_articles(asides[0]))[1] if asides else ()
    return NameWords(said, core, titles, at, aside)


def words_of(text: str) -> list[str]:
    """The words of a text, folded."""
    found = (_folded(word) for word in _WORD.findall(text))
    return [word for word in found if word]


def _without_articles(text: str) -> tuple[str, ...]:
    words = words_of(text)
    # "a" is an article at the beginning only: JOHN A. SMITH, INFLUENZA A
    kept = (w for at, w in enumerate(words) if w not in ARTICLES or (w == "a" and at))
    return tuple(kept) or tuple(words)


def _folded(word: str) -> str:
    """A word without accents; a possessive ends in an apostrophe."""
    word = word.replace("’", "'").casefold()
    owner, _, rest = word.rpartition("'")
    if owner and rest in ("s", ""):
        return f"{normalised(owner)}'"
    return normalised(word)


def _split(said: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    """The titles, and the rest without legal forms and the kind of a place."""
    core = said
    if len(core) > 2 and core[0] in _KINDS_OF_PLACES and core[1] == "of":
        core = core[2:]
    while len(core) > 1 and core[0] in _TITLES and core[1] not in _LINKING:
        core = core[1:]
    titles = frozenset(said[: len(said) - len(core)]) & _TITLES
    while len(core) > 1 and core[-1] in _FIRMS:
        core = core[:-1]
    return titles, core


def relation(a: NameWords, b: NameWords) -> str:
    """The kind of relation of two different names."""
    if a.several != b.several or exclusive(a.titles, b.titles) or _figures(a) != _figures(b):
        return "unlike"
    if a.spelled == b.spelled:
        if a.titles != b.titles:
            return "title"
        return "same" if a.stated == b.stated else "form"
    if _reordered(a, b):
        return "order"
    short, long = (a, b) if len(a.core) <= len(b.core) else (b, a)
    if long.aside == short.core or short.aside == long.core:
        return "aside"
    if _initials(short, long) or _initials(long, short):
        return "initials"
    contained = _contained(short, long) if len(short.core) < len(long.core) else ""
    if contained:
        return contained
    if _differ_in_number(a.core, b.core):
        return "number"
    if a.letters == b.letters and _misspelt(a.spelled, b.spelled):
        return "spelling"
    return "apart" if set(a.core).isdisjoint(b.core) else "sibling"


def exclusive(a: frozenset[str], b: frozenset[str]) -> bool:
    """Whether no one has titles of both."""
    opposite = ((HE, SHE), (_OLD, _YOUNG))
    return any((a & x and b & y) or (a & y and b & x) for x, y in opposite)


def _contained(short: NameWords, long: NameWords) -> str:
    n, core = len(short.core), long.core
    if core[long.head - n : long.head] == short.core and long.head >= n:
        return "head"
    if core[-n:] == short.core and long.head == len(core):
        return "head"
    if core[:n] == short.core:
        return "start"
    if any(core[at : at + n] == short.core for at in range(1, len(core) - n + 1)):
        return "part"
    return ""


def _reordered(a: NameWords, b: NameWords) -> bool:
    """Whether they have the same words but for initials and linking words, at least two."""
    x, y = (
        sorted(word for word in name.core if len(word) > 1 and word not in _LINKING)
        for name in (a, b)
    )
    return len(x) > 1 and x == y and (a.letters <= b.letters or b.letters <= a.letters)


def _figures(name: NameWords) -> list[str]:
    figures = [word for word in name.said if any(c.isdigit() for c in word)]
    return sorted([*figures, *filter(str.isdigit, name.aside)])


def _initials(short: NameWords, long: NameWords) -> bool:
    return short.abbreviation in long.initials


def _differ_in_number(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    """Whether words differ only as a plural or a possessive does."""
    pairs = (sorted((x.removesuffix("'"), y.removesuffix("'"))) for x, y in zip(a, b, strict=False))
    return len(a) == len(b) and all(
        y in (x, f"{x}s", f"{x}es") or ((x[-3:], y[-3:]) == ("man", "men") and x[:-3] == y[:-3])
        for x, y in pairs
    )


def _misspelt(a: str, b: str) -> bool:
    """Whether the spellings differ by one letter, or by two next to each other."""
    if min(len(a), len(b)) < _LEAST_SPELLED or abs(len(a) - len(b)) > 1 or a[0] != b[0]:
        return False
    return OSA.distance(a, b, score_cutoff=1) <= 1
