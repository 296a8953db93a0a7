"""Variants of titles: by words together, as a probability, and whichever way a code is written."""

from __future__ import annotations

import itertools

import pytest

from kbforge_plugins.likelihoods.attributes.distortion import (
    SLIPS,
    AttributeRates,
    components,
    words_kept,
)
from kbforge_plugins.likelihoods.attributes.kinds import features_of
from kbforge_plugins.likelihoods.attributes.urn import Urns
from kbforge_plugins.likelihoods.attributes.vocabulary import RETENTIONS, Vocabulary

WORDS = ["red", "green", "blue", "x1", "x2"]
ALL = [" ".join(w) for n in range(1, 6) for w in itertools.combinations(WORDS, n)]


@pytest.mark.parametrize("true", [ALL[0], ALL[7], ALL[-1], "red yellow", "x1 x9 9"])
def test_each_retention_sums_to_at_most_one_and_to_no_less_than_it_should(true: str) -> None:
    """Over all sets of words, any of which may be seen with any count."""
    vocabulary = Vocabulary("title", {title: 1.0 + n % 3 for n, title in enumerate(ALL)})
    v = vocabulary.number(true)
    rows = [components(vocabulary, u, v)[len(SLIPS) : -1] for u in range(len(ALL))]
    for total in map(sum, zip(*rows, strict=True)):
        assert 0.005 < total <= 1 + 1e-9


def test_the_formula_of_the_docstring() -> None:
    vocabulary = Vocabulary("title", {"red x1 big": 1, "red x1 small": 1, "red pen": 1, "ink": 5})
    u, v = vocabulary.number("red x1 small"), vocabulary.number("red x1 big")
    base = vocabulary.base
    # of the texts with red and x1, other than v, there is but u
    expected = [r * (1 - r) * d / base[u] for _, r, d in RETENTIONS]
    assert words_kept(vocabulary, u, v) == pytest.approx(expected)
    pen = vocabulary.number("red pen")
    rest = base[u] + base[pen]
    expected = [r * (1 - r) * (1 - d) / rest for _, r, d in RETENTIONS]
    assert words_kept(vocabulary, pen, v) == pytest.approx(expected)
    assert words_kept(vocabulary, vocabulary.number("ink"), v) == (0.0,) * len(RETENTIONS)


def test_words_that_come_in_company_are_not_evidence_each() -> None:
    """Two titles with three words that always go together, and two with three that do not."""
    line = [f"acme turbo mixer m{i}" for i in range(30)]
    others = [f"{w} thing{i}" for i in range(10) for w in ("light", "fast", "green")]
    pair = ["light fast green n1", "light fast green n2"]
    vocabulary = Vocabulary("title", dict.fromkeys([*line, *others, *pair], 1))
    urns = Urns(vocabulary, AttributeRates.prior("title"))

    def evidence(one: str, other: str) -> float:
        first, second = urns.single(vocabulary.number(one)), vocabulary.number(other)
        return first.gain(second) - urns.single(second).log_marginal

    assert evidence(*pair) > evidence(line[0], line[1]) + 2


@pytest.mark.parametrize("spelled", ["router wrt-54g", "router wrt54g", "router wrt.54.g new"])
def test_a_code_is_a_word_whichever_way_it_is_written(spelled: str) -> None:
    assert "wrt54g" in features_of("title", spelled)["word"]
    assert "lapdesktop" not in features_of("title", "lap/desktop oem")["word"]
