"""What the n-gram models see of a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge_plugins.likelihoods.ngram_text import END, START, ngrams, normalised


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Ada  Lovelace ", "ada lovelace"),
        ("Łódź", "łodz"),  # the stroke is part of the letter, the accents are not
        ("STRASSE Straße", "strasse strasse"),
        ("O'Brien (Jr.)", "obrien jr"),
        ("Anne-Marie Anne–Marie", "anne-marie anne-marie"),
        ("ﬁne №7 ²", "fine no7 2"),
        ("東京 Αθήνα", "東京 αθηνα"),
        ("कि", "कि"),  # a vowel sign is no accent
        ("a\tb\u00a0c\u2003d\ne", "a b c d e"),
        ("İstanbul", "istanbul"),
        ("!?", ""),
        (f"{START}x{END}\x00", "x"),
    ],
)
def test_normalised(value: str, expected: str) -> None:
    assert normalised(value) == expected


@given(st.text(max_size=40))
def test_normalising_twice_changes_nothing_and_keeps_no_symbol_of_the_model(value: str) -> None:
    once = normalised(value)
    assert normalised(once) == once
    assert START not in once
    assert END not in once


@given(st.text(st.characters(max_codepoint=127), max_size=40))
def test_the_short_way_for_ascii_is_the_general_way(value: str) -> None:
    # one character beyond ASCII that vanishes sends the text the long way
    assert normalised(value) == normalised(value + "\u0301")


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@given(value=st.text(max_size=20))
def test_one_ngram_a_character_and_one_for_the_end(order: int, value: str) -> None:
    counts = ngrams(value, order)
    assert sum(counts.values()) == len(normalised(value)) + 1
    assert all(len(gram) == order for gram in counts)
    assert sum(n for gram, n in counts.items() if gram[-1] == END) == 1
    assert not any(gram[-1] == START for gram in counts)
