"""The features of a pair of rows in plain Python, against which the kernel is held.

Every number has the bits that the kernel gives: sums are NumPy's, similarities RapidFuzz's.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from rapidfuzz import fuzz
from rapidfuzz.distance import JaroWinkler

from kbforge.contracts import Fragment
from kbforge.texts.kinds import read_as, words_of
from kbforge.texts.kinds import stated as said_of
from kbforge_plugins.likelihoods.pairs.bags import Bags
from kbforge_plugins.likelihoods.pairs.differences import Differences
from kbforge_plugins.likelihoods.pairs.file import File, Rows
from kbforge_plugins.likelihoods.pairs.near import EQUAL_FORMS
from kbforge_plugins.likelihoods.pairs.table import SMALL, Column, NameForms, RecordTable

SAME = 1e-9


def single(score: float) -> float:
    """A similarity as RapidFuzz gives it for many pairs, in single precision."""
    return float(np.float32(score))


def ordered(x: float, y: float) -> tuple[float, float]:
    return min(x, y), max(x, y)


def total(values: Sequence[float]) -> float:
    return float(np.add.reduceat(np.array(values), [0])[0]) if values else 0.0


def tokens(bags: Bags, row: int) -> list[int]:
    columns: list[int] = bags.columns[bags.starts[row] : bags.starts[row + 1]].tolist()
    return columns


def overlap(a: Bags, i: int, b: Bags, j: int) -> tuple[float, float, float, float]:
    """The cosine, the shared weight, and the largest weights that only one row has."""
    one, other = tokens(a, i), tokens(b, j)
    weights = [float(a.weight[c]) for c in one if c in {*other}]
    cosine = total([(float(a.scale[i]) * w) * (float(b.scale[j]) * w) for w in weights])
    only = [
        max((float(a.weight[c]) for c in some if c not in {*others}), default=0.0)
        for some, others in ((one, other), (other, one))
    ]
    return cosine, total(weights), *only


def masses(a: Bags, i: int, b: Bags, j: int) -> tuple[float, ...]:
    _, shared, *only = overlap(a, i, b, j)
    covered = [shared / float(m) if m > 0 else 0.0 for m in (a.mass[i], b.mass[j])]
    return *ordered(*covered), shared, *ordered(*only)


def equal(x: int, y: int) -> float:
    return float(x == y) if x and y else math.nan


def name_features(a: NameForms, x: int, b: NameForms, y: int) -> list[float]:
    form = {name: (int(a.numbers(name)[x]), int(b.numbers(name)[y])) for name in FORMS}
    text, full = (a.text[x], b.text[y]), (a.sorted[x], b.sorted[y])
    turned = text[::-1] if form["name"][0] > form["name"][1] else text
    first, lone = ((int(a.letters[at, x]) % 2**64, int(b.letters[at, y]) % 2**64) for at in (0, 1))
    met = sum((lone[k] & first[1 - k]).bit_count() for k in (0, 1))
    unmet = sum((lone[k] & ~first[1 - k] & ~lone[1 - k]).bit_count() for k in (0, 1))
    acronym = any(
        form[kind][k] and form[kind][k] == form["compact"][1 - k]
        for kind in ("acronym", "short acronym")
        for k in (0, 1)
    )
    count = ordered(float(a.count[x]), float(b.count[y]))
    digits = overlap(a.bags["digits"], x, b.bags["digits"], y)
    return [
        *(equal(*form[kind]) for kind in ("name", "sorted", "compact", "bare")),
        *(overlap(a.bags[k], x, b.bags[k], y)[0] for k in ("trigrams", "words", "sounds")),
        single(fuzz.ratio(*text)) / 100,
        single(JaroWinkler.similarity(*turned)),
        single(fuzz.ratio(*full)) / 100,
        single(fuzz.ratio(a.bare[x], b.bare[y])) / 100,
        single(fuzz.token_set_ratio(*full)) / 100,
        *masses(a.bags["words"], x, b.bags["words"], y),
        *(equal(*form[kind]) for kind in ("first", "last")),
        *(met, unmet, acronym),
        bool(all(text) and (text[0] in text[1] or text[1] in text[0])),
        *ordered(float(len(text[0])), float(len(text[1]))),
        *(*count, count[1] - count[0]),
        *(digits[1], *ordered(*digits[2:])),
        *known_features(*text),
    ]


FORMS = ("name", "sorted", "compact", "bare", "first", "last", "acronym", "short acronym")


def nearest_names(a: RecordTable, i: int, b: RecordTable, j: int) -> tuple[int, int]:
    def rank(pair: tuple[int, int]) -> tuple[float, int, int]:
        x, y = pair
        low, high = sorted((int(a.names.numbers("name")[x]), int(b.names.numbers("name")[y])))
        score = 2.0 * (low == high != 0)
        return (
            -score - overlap(a.names.bags["trigrams"], x, b.names.bags["trigrams"], y)[0],
            low,
            high,
        )

    of_rows = (t.which[t.called[row] : t.called[row + 1]].tolist() for t, row in ((a, i), (b, j)))
    return min(product(*of_rows), key=rank)


def code_features(a: RecordTable, i: int, b: RecordTable, j: int) -> list[float]:
    _, shared, *only = overlap(a.codes["codes"], i, b.codes["codes"], j)
    coded = a.coded[i].split(), b.coded[j].split()
    spelt = a.spelt[i], b.spelt[j]
    contained = sum(
        len(code) >= 5 and code in spelt[1 - k] and code not in coded[1 - k]
        for k in (0, 1)
        for code in (coded[k] if only[k] > 0 else ())
    )
    units, measures = (
        len({*tokens(a.codes[kind], i)} & {*tokens(b.codes[kind], j)})
        for kind in ("units", "measures")
    )
    _, figures, *lone = overlap(a.codes["figures"], i, b.codes["figures"], j)
    stated = sum(bool(tokens(t.codes["codes"], row)) for t, row in ((a, i), (b, j)))
    return [
        *(stated, shared, *ordered(*only), contained, units, max(measures - units, 0)),
        *(figures, *ordered(*lone)),
    ]


def nearness(a: Column, i: int, b: Column, j: int) -> float:
    x, y = a.which[i], b.which[j]
    if a.numbers[x] == b.numbers[y]:
        return 1.0
    near = max(single(fuzz.ratio(a.text[x], b.text[y])) / 100, overlap(a.bags, x, b.bags, y)[0])
    if len(a.amounts) and len(b.amounts):
        least, most = ordered(float(a.amounts[x]), float(b.amounts[y]))
        if least >= 0:
            near = math.pow(least / most if most > 0 else 1.0, 4)
    return min(near, 0.99)


def bin_of(near: float) -> int:
    return sum(bound <= near for bound in (0.5, 0.8, 1.0))


def agreement_features(file: File, a: Rows, i: int, b: Rows, j: int) -> list[float]:
    one, near, rarity, evidence, conflict = 0, [], [], [], []
    for name, worth in file.worths.items():
        x, y = a.table.columns[name], b.table.columns[name]
        stated = [int(column.value(row)) != 0 for column, row in ((x, i), (y, j))]
        one += stated[0] != stated[1]
        if not all(stated):
            continue
        near.append(nearness(x, i, y, j))
        said = float(worth.log_ratio[bin_of(near[-1])])
        rarity.append(float(worth.rarity(x)[x.which[i]]) if near[-1] >= 1 else 0.0)
        if near[-1] >= 1:
            said = min(rarity[-1], max(said, 0.0) + 2.0)
        evidence.append(min(max(said, -12.0), 12.0))
        conflict.append(worth.functional * (1.0 - near[-1]))
    both = len(near)
    good, bad = [max(e, 0.0) for e in evidence], [min(e, 0.0) for e in evidence]
    return [
        *(both, one, sum(n >= 1 for n in near), sum(n < 0.5 for n in near)),
        *(sum(evidence), sum(good), sum(bad), max(good, default=0), min(bad, default=0)),
        *(sum(rarity), max(rarity, default=0)),
        *((sum(near) / both, min(near), max(near)) if both else 3 * (math.nan,)),
        sum(conflict),
    ]


def standing(
    tops: Sequence[float], value: float, close: float = 0.08, none: float = 0.0
) -> tuple[float, float, float]:
    best = max(tops)
    others = tops[1] if value >= best - SAME else best
    return (
        sum(top > value + SAME for top in tops),
        value - max(others, none),
        sum(abs(top - value) <= close for top in tops),
    )


def odds_by_attribute(file: File, x: Fragment, y: Fragment) -> dict[str, float]:
    """What the fitted likelihood says of two statements, by each attribute that both make."""
    if file.learned is None:
        return {}
    likelihood = file.learned.likelihood

    def parts(some: Sequence[Fragment]) -> dict[str, float]:
        stated = [
            name
            for name, of in likelihood.vocabularies.items()
            if all(read_as(of.kind, said_of(x.properties.get(name, ()))) for x in some)
        ]
        sets = [[Fragment("", {name: x.properties[name]}) for x in some] for name in stated]
        return dict(zip(stated, likelihood.log_marginal(sets).tolist(), strict=True))

    both, one, other = parts([x, y]), parts([x]), parts([y])
    return {name: nats - one[name] - other[name] for name, nats in both.items()}


def odds_features(file: File, a: Rows, i: int, b: Rows, j: int, said: Spoken) -> list[float]:
    odds = odds_by_attribute(file, said[int(a.slots[i])], said[int(b.slots[j])])
    parts, total = [*odds.values()], sum(odds.values()) if odds else math.nan
    named = [nats for name, nats in odds.items() if name in file.naming]
    found = [
        *(total, sum(max(x, 0.0) for x in parts), sum(min(x, 0.0) for x in parts)),
        total - (0.0 if file.learned is None else file.learned.log_alpha),
        *(max(parts, default=math.nan), min(parts, default=math.nan)),
        *(sum(x > 0.5 for x in parts), sum(x < -0.5 for x in parts)),
        sum(named) if named else math.nan,
    ]
    if not parts:
        return [*found, *6 * (math.nan,)]
    tops = a.best_odds[i].tolist(), b.best_odds[j].tolist()
    both = [standing(some, total, 1.0, -30.0) for some in tops]
    return [*found, *(x for some in zip(*both, strict=True) for x in ordered(*some))]


def difference_features(
    rules: Differences, one: Sequence[float], other: Sequence[float]
) -> list[float]:
    """The features of two rows with these measures, in plain Python."""
    evidence, every = [], []
    for first, second in ((one, other), (other, one)):
        for (a, b), bounds, ratios in zip(
            rules.which.tolist(), rules.bounds, rules.log_ratio, strict=True
        ):
            if not math.isnan(first[a] + second[b]):
                ratio = float(ratios[sum(bound <= second[b] - first[a] for bound in bounds)])
                every.append(ratio)
                if math.isnan(first[b]) and math.isnan(second[a]):
                    evidence.append(ratio)
    total = 0.0
    for ratio in evidence:
        total += ratio
    return [total if evidence else math.nan, min(every, default=math.nan), len(every)]


Spoken = Mapping[int, Fragment]
"""By cluster of the fitted likelihood's table, a fragment that states its row."""


def features_of(file: File, a: Rows, i: int, b: Rows, j: int, said: Spoken) -> list[float]:
    """`FEATURES` of row i of the first and j of the second."""
    s, t = a.table, b.table
    x, y = nearest_names(s, i, t, j)
    several = any(r.called[row + 1] - r.called[row] > 1 for r, row in ((s, i), (t, j)))
    letters = (
        overlap(s.trigrams, i, t.trigrams, j)[0]
        if several
        else overlap(s.names.bags["trigrams"], x, t.names.bags["trigrams"], y)[0]
    )
    words = overlap(s.all_text, i, t.all_text, j)[0]
    found: list[Any] = [
        *name_features(s.names, x, t.names, y),
        *code_features(s, i, t, j),
        *(words, *masses(s.all_text, i, t.all_text, j)),
        *agreement_features(file, a, i, b, j),
    ]
    for one, other, value in ((a.letters, b.letters, letters), (a.words, b.words, words)):
        both = standing(one[i].tolist(), value), standing(other[j].tolist(), value)
        for least, most in zip(*both, strict=True):
            found += ordered(least, most)
    found += [s.script[i] != t.script[j], overlap(s.consonants, i, t.consonants, j)[0]]
    for one_of, other_of in zip(a.numbers[:, i].tolist(), b.numbers[:, j].tolist(), strict=True):
        found += ordered(one_of, other_of)
    found += difference_features(file.differences, a.measures[i], b.measures[j])
    found += odds_features(file, a, i, b, j, said)
    return [float(one) for one in (*found, *file.dump()["facts"])]


# Candidate pairs.


def used_columns(bags: Bags, work_a_row: int) -> set[int]:
    """From the rarest on, until the work for a product of all rows exceeds a limit."""
    shared = Counter(bags.columns.tolist())
    spent, kept = 0, set[int]()
    for column in sorted(range(len(bags.weight)), key=lambda c: (shared[c], c)):
        spent += shared[column] ** 2
        if spent > work_a_row * max(len(bags), 50):
            break
        kept.add(column)
    return kept


def nearest(
    bags: Bags, row: int, others: Sequence[int], most: int, least: float, used: set[int]
) -> list[tuple[float, int]]:
    """The cosines of the nearest rows, and these."""
    found = []
    for other in others:
        cosine, theirs = 0.0, {*tokens(bags, other)} & used
        for weight in [float(bags.weight[c]) for c in tokens(bags, row) if c in theirs]:
            cosine += (weight * float(bags.scale[row])) * (weight * float(bags.scale[other]))
        if cosine >= least:
            found.append((-cosine, other))
    return [(-cosine, other) for cosine, other in sorted(found)[:most]]


def candidates(
    table: RecordTable, bits: Sequence[int], work: int
) -> tuple[list[list[list[float]]], list[tuple[int, int]]]:
    """The cosines of the nearest rows, by letters and by words, and the candidate pairs."""
    n, linked, script = len(table), table.linked.tolist(), table.script.tolist()
    apart = [{x for x in range(n) if linked[x] != linked[row] or not linked[x]} for row in range(n)]
    pairs = set[tuple[int, int]]()
    tops: list[list[list[float]]] = []
    for bags in (table.trigrams, table.all_text):
        used = used_columns(bags, work)
        near = [nearest(bags, row, sorted(apart[row] - {row}), 24, 0.08, used) for row in range(n)]
        tops.append([[c for c, _ in some] + [-1.0] * (24 - len(some)) for some in near])
        pairs |= {(row, other) for row, some in enumerate(near) for _, other in some}
    used = used_columns(table.consonants, work)
    for row in range(n):
        others = [x for x in sorted(apart[row]) if script[x] != script[row]]
        across = nearest(table.consonants, row, others, 8, 0.15, used)
        pairs |= {(row, other) for _, other in across}
    called = [table.which[table.called[row] : table.called[row + 1]].tolist() for row in range(n)]
    for mine, theirs in EQUAL_FORMS:
        wanted, known = (table.names.numbers(form).tolist() for form in (mine, theirs))
        for row in range(n):
            for number in {wanted[name] for name in called[row]} - {0}:
                same = [x for x in range(n) for name in called[x] if known[name] == number]
                same = same if len(same) <= 50 else [x for x in same if x >= row]
                pairs |= {(row, other) for other in same[:50]}
    return tops, sorted(
        {
            (min(pair), max(pair))
            for pair in pairs
            if pair[1] in apart[pair[0]] - {pair[0]} and bits[pair[0]] & bits[pair[1]]
        }
    )


# What is known about names in general.

_SEPARATOR = re.compile(
    r"\s*[,;:|()\[\]]+\s*|\s+[-/]\s+"
    r"|\s+(?:of|at|in|de|des|du|di|del|della|do|da|der|fur|for|van|von|zu)\s+"
)
_WITHIN = re.compile(r"\.|(?<=\b\w)/(?=\w\b)")
_SILENT = SMALL - {*"aeiuy"} | {"das", "die", "il", "las", "los"}
_SAME_FORM = {
    "company": "co",
    "corporation": "corp",
    "incorporated": "inc",
    "limited": "ltd",
    "unlimited": "unltd",
}
_ORDINALS = (
    *("first", "second", "third", "fourth", "fifth"),
    *("sixth", "seventh", "eighth", "ninth", "tenth"),
)
_DIGITS = re.compile(r"0*(\d{1,9})(?:st|nd|rd|th)?")
_ROMAN = re.compile(r"(x{0,3})(ix|iv|v?i{0,3})")
_UNITS = ("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix")


class Reading(NamedTuple):
    """A folded name as it is compared with others."""

    words: set[str]  # all but small words and legal forms at either end
    core: str
    legal: set[str]  # its legal forms, in one spelling each
    heads: set[str]  # cores of parts
    tails: set[str]
    acronyms: set[str]  # of the whole and of its parts
    runs: set[str]  # the same of any words in a row
    numbers: set[str]


@lru_cache(maxsize=1)
def tables() -> tuple[frozenset[str], dict[str, set[str]]]:
    """The legal forms, and the long forms of each given name, including itself."""
    text = files("kbforge_plugins.likelihoods.pairs").joinpath("known.json").read_text("utf-8")
    told = json.loads(text)
    names: dict[str, set[str]] = {}
    for name, nicknames in told["nicknames"].items():
        for one in (name, *nicknames):
            names.setdefault(one, {one}).add(name)
    return frozenset(told["legal forms"]), names


def stripped(words: list[str]) -> tuple[list[str], set[str]]:
    """The words of a core, and the legal forms that were taken from its ends."""
    forms, legal = tables()[0], set()
    while True:
        endings = (n for n in range(min(3, len(words) - 1), 0, -1) if " ".join(words[-n:]) in forms)
        if not (n := next(endings, 0)):
            break
        legal.add(" ".join(words[-n:]))
        words = words[:-n]
    while len(words) > 1 and len(words[0]) > 2 and words[0] in forms:
        legal.add(words[0])
        words = words[1:]
    core = [word for word in words if word not in _SILENT] or words
    return core[:12], {_SAME_FORM.get(form, form) for form in legal}


def numbers_in(words: Sequence[str]) -> set[str]:
    numbers = set()
    for at, word in enumerate(words):
        if found := _DIGITS.fullmatch(word):
            numbers.add(found[1])
        elif word in _ORDINALS:
            numbers.add(str(_ORDINALS.index(word) + 1))
        elif (len(word) > 1 or 0 < at == len(words) - 1) and (found := _ROMAN.fullmatch(word)):
            numbers.add(str(10 * len(found[1]) + _UNITS.index(found[2])))
    return numbers


def reading(name: str) -> Reading:
    between = [words_of(_WITHIN.sub("", part)) for part in _SEPARATOR.split(name)]
    between = [words for words in between if words][:5]
    n = len(between)
    spans = [(i, j) for i in range(n) for j in range(i + 1, n + 1)]
    parts = {(i, j): stripped([w for some in between[i:j] for w in some]) for i, j in spans}
    core, legal = parts.get((0, n), ([], set()))
    acronyms = {"".join(w[0] for w in words) for words, _ in parts.values() if 2 <= len(words) <= 8}
    runs = {
        "".join(word[0] for word in core[i:j])
        for i in range(len(core))
        for j in range(i + 2, min(i + 8, len(core)) + 1)
    }
    return Reading(
        {*core},
        "".join(core),
        legal,
        {"".join(parts[0, j][0]) for j in range(1, n)},
        {"".join(parts[i, j][0]) for i, j in spans if i},
        acronyms,
        runs | acronyms,
        numbers_in(core),
    )


def shortens(short: str, long: str) -> bool:
    """Whether a word abbreviates another of the same first letter: "dept", "univ", "st"."""
    if not 1 < len(short) < len(long) - 1 or short[0] != long[0]:
        return False
    rest = iter(long)
    in_order = short[-1] == long[-1] and all(letter in rest for letter in short)
    return long.startswith(short) or in_order


def agreement(one: set[str], other: set[str]) -> float:
    return len(one & other) / len(one | other) if one and other else math.nan


def known_features(one: str, other: str) -> list[float]:
    """`KNOWN_FEATURES` of two folded names."""
    a, b = reading(one), reading(other)
    given = tables()[1]
    only = a.words - b.words, b.words - a.words
    pairs = [*product(*only)] if len(only[0]) * len(only[1]) <= 36 else []
    named = [bool(given[x] & given[y]) for x, y in pairs if x in given and y in given]
    short = {(x, y) for x, y in pairs if shortens(x, y) or shortens(y, x)}
    met = {
        (x, y)
        for x, y in pairs
        if (x, y) in short
        or fuzz.ratio(x, y) >= 80
        or (x in given and y in given and given[x] & given[y])
    }
    left = [
        len(words - {pair[side] for pair in met} - told.runs)
        for side, (words, told) in enumerate(zip(only, (b, a), strict=True))
    ]
    made = [(bool(w & o.runs) + bool(w & o.acronyms)) for w, o in zip(only, (b, a), strict=True)]
    shared = ({a.core} | a.heads | a.tails) & ({b.core} | b.heads | b.tails)
    longest = max(map(len, shared), default=0) / max(len(a.core), len(b.core), 1)
    several = bool(a.heads or b.heads)
    return [
        float(any(named)) if named else math.nan,
        *(len(short), min(left), max(left)),
        float(a.core == b.core) if a.core and b.core else math.nan,
        agreement(a.legal, b.legal),
        max(made),
        several and (a.core in b.heads or b.core in a.heads),
        several and (a.core in b.tails or b.core in a.tails),
        longest if several else math.nan,
        agreement(a.numbers, b.numbers),
    ]
