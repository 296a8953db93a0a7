"""G(u | v): how probable an observed value u is if the true value is v.

A mixture of ways a value can come about, each a distribution of its own over u:

    copy            u = v
    substitution    one letter replaced, or two neighbours swapped, each place and letter alike
    edit            one letter more or less
    two edits       two of these
    a feature       a value of the vocabulary other than v that shares a feature of this name with
                    v, drawn from the base distribution; if v has several, each is as probable to
                    be the one kept
    a retention     of titles, in place of features: so many of the words of v (`titles`)
    noise           any value other than v, drawn from the base distribution

The mixing weights are the attribute's `rates`. Slips sum to at most 1 over all strings u, and the
other components over the values counted (a feature that no other value has, or an edit that has two
shortest paths, leaves a little less). Slips write letters of the vocabulary only, and in dates and
numbers digits only. G(v | v) is the weight of copies, nothing else.
"""

from __future__ import annotations

from collections import Counter

from rapidfuzz.distance import OSA

from kbforge_plugins.models.attributes.kinds import Kind, feature_names
from kbforge_plugins.models.attributes.titles import RETENTIONS
from kbforge_plugins.models.attributes.vocabulary import Vocabulary

COPY, SUBSTITUTION, EDIT, TWO_EDITS = 0, 1, 2, 3
SLIPS = ("copy", "substitution", "edit", "two edits")
NOISE = "noise"
MOST_SLIPS = 2
_LONGEST_COMPARED = 120
"""Characters of the longest value that can be a slip of another."""
_LEAST_REST = 1e-12
"""Base probability that is more than rounding, so that other values do have the feature."""


def component_names(kind: Kind) -> tuple[str, ...]:
    """The mixture's components in order: slips of the pen, features, noise."""
    kept = [name for name, *_ in RETENTIONS] if kind == "title" else feature_names(kind)
    return (*SLIPS, *kept, NOISE)


def components(vocabulary: Vocabulary, u: int, v: int) -> list[float]:
    """The probability of value u under each component, if the true value is v, in order."""
    out = [0.0] * len(component_names(vocabulary.kind))
    if u == v:
        out[COPY] = 1.0
        return out
    out[-1] = vocabulary.base[u]
    component, probability = slip(vocabulary, u, v)
    out[component] = probability
    if not vocabulary.counted(u):
        return out
    if vocabulary.titles is not None:
        kept = words_kept(vocabulary, u, v)
        out[len(SLIPS) : -1] = [vocabulary.base[u] * share for share in kept]
        return out
    shares = shares_kept(vocabulary, v)
    for name, feature in vocabulary.features[u]:
        out[len(SLIPS) + name] += vocabulary.base[u] * shares.get(feature, 0.0)
    return out


def shares_kept(vocabulary: Vocabulary, v: int, discount: float = 1.0) -> dict[int, float]:
    """By feature of v: how probable it is to be the one kept, over what else has it.

    Times base(u) this is the probability of u, a value of the vocabulary, under the feature's name.
    The mass of what else has it is raised to the power of the discount.
    """
    theirs = vocabulary.features[v]
    several: dict[int, int] = {}
    for name, _ in theirs:
        several[name] = several.get(name, 0) + 1
    own = vocabulary.base[v] if vocabulary.counted(v) else 0.0
    out = {}
    for name, feature in theirs:
        rest = vocabulary.shared_mass(feature) - own
        if rest > _LEAST_REST:
            out[feature] = 1.0 / (rest**discount * several[name])
    return out


def words_kept(vocabulary: Vocabulary, u: int, v: int, discount: float = 1.0) -> tuple[float, ...]:
    """By retention: how probable u, a title that was counted, is to be made of v, over base(u).

    The mass of what else has the words is raised to the power of the discount.
    """
    assert vocabulary.titles is not None, "the values are not titles"
    theirs = vocabulary.words[v]
    common = vocabulary.words[u] & theirs
    if not common:
        return (0.0,) * len(RETENTIONS)
    rest = vocabulary.titles.mass(common)
    if vocabulary.counted(v):
        rest -= vocabulary.base[v]
    if rest <= _LEAST_REST:
        return (0.0,) * len(RETENTIONS)
    rest **= discount
    return tuple(share / rest for share in vocabulary.titles.kept(common, theirs))


def slips_between(vocabulary: Vocabulary, u: int, v: int) -> int:
    """The fewest slips that make u of v or v of u; more than `MOST_SLIPS` are not told apart."""
    observed, true = vocabulary.values[u], vocabulary.values[v]
    shorter, longer = sorted((len(observed), len(true)))
    if longer - shorter > MOST_SLIPS or longer > _LONGEST_COMPARED:
        return MOST_SLIPS + 1
    return OSA.distance(observed, true, score_cutoff=MOST_SLIPS)


def slip(vocabulary: Vocabulary, u: int, v: int) -> tuple[int, float]:
    """Which slip of the pen makes u of v, and its probability; 0 if none does.

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
    # a letter from elsewhere can be replaced by any, but digits replace nothing but digits
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
    """Whether a value is known to be written in the alphabet, without looking at it."""
    return vocabulary.counted(number) and not vocabulary.numeric


def _writes_the_alphabet(vocabulary: Vocabulary, u: int, v: int) -> bool:
    """Whether what is new in u is of the alphabet: how many other letters there are is unknown."""
    if _all_letters(vocabulary, u):
        return True
    observed, true = Counter(vocabulary.values[u]), Counter(vocabulary.values[v])
    letters = vocabulary.letters
    if not all(letter in letters for letter in observed - true):
        return False
    # a sign that is gone from a date or number was deleted: nothing was put in its place
    gone = sum(n for letter, n in (true - observed).items() if letter not in letters)
    return not vocabulary.numeric or gone <= max(true.total() - observed.total(), 0)
