"""G's components written out for one pair of values, as the kernel's oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from math import fsum

from rapidfuzz.distance import OSA

from kbforge_plugins.likelihoods.attributes.urn import COPY, SLIPS, component_names
from kbforge_plugins.likelihoods.attributes.vocabulary import RETENTIONS, Vocabulary

SUBSTITUTION, EDIT, TWO_EDITS = 1, 2, 3
MOST_SLIPS = 2
_LONGEST_COMPARED = 120  # characters of the longest value that can be a slip of another
_LEAST_REST = 1e-12  # base probability beyond rounding errors: other values do have the feature


def components(vocabulary: Vocabulary, u: int, v: int) -> list[float]:
    """The probability of value u under each component if the true value is v."""
    out = [0.0] * len(component_names(vocabulary.kind))
    if u == v:
        out[COPY] = 1.0
        return out
    out[-1] = vocabulary.base[u]
    component, probability = slip(vocabulary, u, v)
    out[component] = probability
    if not vocabulary.counted(u):
        return out
    if vocabulary.kind == "title":
        kept = words_kept(vocabulary, u, v)
        out[len(SLIPS) : -1] = [vocabulary.base[u] * share for share in kept]
        return out
    shares = shares_kept(vocabulary, v)
    for name, feature in vocabulary.features(u):
        out[len(SLIPS) + name] += vocabulary.base[u] * shares.get(feature, 0.0)
    return out


def shares_kept(vocabulary: Vocabulary, v: int, discount: float = 1.0) -> dict[int, float]:
    """For each feature of v: the probability that it is kept, over the discounted mass of other
    values.

    Times base(u) this is the probability of u, a counted value, under the feature's component.
    """
    theirs = vocabulary.features(v)
    several: dict[int, int] = {}
    for name, _ in theirs:
        several[name] = several.get(name, 0) + 1
    own = vocabulary.base[v] if vocabulary.counted(v) else 0.0
    out = {}
    for name, feature in theirs:
        rest = vocabulary.mass[feature] - own
        if rest > _LEAST_REST:
            out[feature] = 1.0 / (rest**discount * several[name])
    return out


def words_kept(vocabulary: Vocabulary, u: int, v: int, discount: float = 1.0) -> tuple[float, ...]:
    """By retention: the probability of u, a counted title, if v is true, over base(u)."""
    (of_u, _), (theirs, digits) = words_of(vocabulary, u), words_of(vocabulary, v)
    common = of_u & theirs
    rest = mass_of(vocabulary, common) if common else 0.0
    if vocabulary.counted(v):
        rest -= vocabulary.base[v]
    if rest <= _LEAST_REST:
        return (0.0,) * len(RETENTIONS)
    rest **= discount
    kept_digits = len(common & digits)
    plain, left = len(common) - kept_digits, len(digits) - kept_digits
    others = len(theirs) - len(digits) - plain
    return tuple(
        r**plain * (1 - r) ** others * of_digits**kept_digits * (1 - of_digits) ** left / rest
        for _, r, of_digits in RETENTIONS
    )


@lru_cache(maxsize=1 << 14)
def words_of(vocabulary: Vocabulary, number: int) -> tuple[frozenset[int], frozenset[int]]:
    """The words of a title, and those of the vocabulary with a digit."""
    _, digits, words = vocabulary.word_rows((number,))
    known = (words < len(vocabulary.by_word()[0]) - 1) & (digits > 0)
    return frozenset(words.tolist()), frozenset(words[known].tolist())


def mass_of(vocabulary: Vocabulary, words: Iterable[int]) -> float:
    """The base probability of all counted titles that have these words, at least one."""
    starts, holders, base = vocabulary.by_word()
    of_words = [
        {*holders[starts[word] : starts[word + 1]].tolist()} if word < len(starts) - 1 else set()
        for word in words
    ]
    return fsum(base[number] for number in set.intersection(*of_words))


def slips_between(vocabulary: Vocabulary, u: int, v: int) -> int:
    """The smallest number of edits between u and v; all above `MOST_SLIPS` are equal."""
    observed, true = vocabulary.values[u], vocabulary.values[v]
    shorter, longer = sorted((len(observed), len(true)))
    if longer - shorter > MOST_SLIPS or longer > _LONGEST_COMPARED:
        return MOST_SLIPS + 1
    return OSA.distance(observed, true, score_cutoff=MOST_SLIPS)


def slip(vocabulary: Vocabulary, u: int, v: int) -> tuple[int, float]:
    """The edit that turns v into u, and its probability; 0 if there is none.

    A value of n letters over an alphabet of A has n (A - 1) substitutions and n - 1 swaps,
    n deletions and (n + 1) A insertions. In dates and numbers digits replace digits.
    """
    distance = slips_between(vocabulary, u, v)
    observed, true = vocabulary.values[u], vocabulary.values[v]
    n = len(true)
    if distance > MOST_SLIPS or not n or not _writes_the_alphabet(vocabulary, u, v):
        return SUBSTITUTION, 0.0
    letters, alphabet = vocabulary.letters, vocabulary.alphabet
    within = n if _all_letters(vocabulary, v) else sum(letter in letters for letter in true)
    # any letter can replace one that is outside the alphabet, but digits replace only digits
    ways = within * (alphabet - 1) + (0 if vocabulary.numeric else (n - within) * alphabet)
    substitutions = max(ways + n - 1, 1)
    edits = n + (n + 1) * alphabet
    if distance == 2:
        # each of the two may be any; unordered pairs of places make half as many results
        return TWO_EDITS, 1.0 / (substitutions + edits) ** 2
    if len(observed) == n:
        return SUBSTITUTION, 1.0 / substitutions
    return EDIT, 1.0 / edits


def _all_letters(vocabulary: Vocabulary, number: int) -> bool:
    """Whether a value is in the alphabet without a check."""
    return vocabulary.counted(number) and not vocabulary.numeric


def _writes_the_alphabet(vocabulary: Vocabulary, u: int, v: int) -> bool:
    """Whether the new letters of u are in the alphabet; the number of others is unknown."""
    if _all_letters(vocabulary, u):
        return True
    observed, true = Counter(vocabulary.values[u]), Counter(vocabulary.values[v])
    letters = vocabulary.letters
    if not all(letter in letters for letter in observed - true):
        return False
    # a sign that is gone from a date or number was deleted, not replaced
    gone = sum(n for letter, n in (true - observed).items() if letter not in letters)
    return not vocabulary.numeric or gone <= max(true.total() - observed.total(), 0)
