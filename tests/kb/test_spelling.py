"""The best spelling: what is one value, what is nearest, what breaks ties; all of it bounded."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Fragment
from kbforge.files.columns import statements_of
from kbforge.kb.spelling import Words, best_of, value_of

BEST = {
    "a slip loses to what the others are near": (
        ["Nvoák Logistik S.A.", "Novák Logistik S.A.", "Novák Logistk S.A."],
        "Novák Logistik S.A.",
    ),
    "spellings without case, accents and punctuation are pooled": (
        ["Nvoák Logistik", "Nvoák Logistik", "NOVAK LOGISTIK", "Novák Logistik", "novak-logistik"],
        "Novák Logistik",
    ),
    "stops of a legal form": (["Arbel SA", "Arbel S.A.", "Arbel S. A.", "Orbel SA"], "Arbel S. A."),
    "a comma before a legal form": (["Acme, Inc.", "ACME INC", "Apex Ltd"], "Acme, Inc."),
    "the name as it is spoken": (
        ["Ruiz, Inés", "Ruiz, Inés", "Inés Ruiz", "Ines Riuz"],
        "Inés Ruiz",
    ),
    "which part is the surname": (["Ruiz Inés", "Inés Ruiz", "Ruiz, Inés"], "Inés Ruiz"),
    "turned around if nothing else is there": (["Ruiz, Inés", "Ruiz, Ines"], "Ruiz, Inés"),
    "accents at equal counts": (["Łódź", "Lodz"], "Łódź"),
    "not more accents than most state": (["Lodz", "Lodz", "Łódź"], "Lodz"),
    "an initial stands for the word": (["J. Smith", "John Smith", "Zoe Price"], "John Smith"),
    "no initial stands for all words": (["J. S.", "John Smith", "J. S."], "J. S."),
    "capitals lose, also where they are frequent": (
        ["INÉS RUIZ", "INÉS RUIZ", "Inés Ruiz"],
        "Inés Ruiz",
    ),
    "a code keeps its capitals": (["AB 12 C", "AB 12 C", "ab 12 c"], "AB 12 C"),
    "small letters of an address": (
        ["A.Ruiz@Post.EXAMPLE", "a.ruiz@post.example"],
        "a.ruiz@post.example",
    ),
    "a telephone number": (["0113 496 0000", "0113-4960000", "0113 946 0000"], "0113 496 0000"),
    "a point is no punctuation in a number": (["1.5", "1.5", "15", "1,5", "-15"], "1.5"),
    "length at last": (["Jon", "John"], "John"),
    "then the code point": (["Bea", "Ann"], "Ann"),
    "Cyrillic": (["Алёна Кузнецова", "АЛЕНА КУЗНЕЦОВА", "Алена Кузнцеова"], "Алёна Кузнецова"),
    "Greek": (["Γιώργος Αντωνίου", "ΓΙΩΡΓΟΣ ΑΝΤΩΝΙΟΥ"], "Γιώργος Αντωνίου"),
    "Arabic with and without vowel signs": (["مُحَمَّد", "محمد", "محمود"], "مُحَمَّد"),
    "vowel signs of Devanagari are letters": (["कमला", "कमला", "कमल"], "कमला"),
    "kana with voicing marks are letters": (["はな", "ばな", "はな"], "はな"),
    "no letters at all": (["--", "--", "?"], "--"),
}


@pytest.mark.parametrize("why", BEST)
def test_the_best(why):
    texts, best = BEST[why]
    assert best_of(Counter(texts)) == best


@pytest.mark.parametrize(
    "texts",
    [
        ["Łódź", "LODZ", "lodz.", "Lódz"],
        ["Straße", "STRASSE", "strasse"],
        ["O'Connor", "O’Connor", "OConnor"],
        ["Smith-Hughes", "Smith Hughes", "Smith_Hughes"],
        ["S.A.", "SA", "S. A."],
        ["Ｔｏｋｙｏ", "Tokyo"],
        ["Αθήνα", "ΑΘΗΝΑ"],
    ],
)
def test_one_value(texts):
    assert len({value_of(text) for text in texts}) == 1


@pytest.mark.parametrize(
    "texts", [["1.5", "15"], ["-5", "5"], ["कि", "का"], ["が", "か"], ["北京", "背景"], ["+", "-"]]
)
def test_different_values(texts):
    assert len({value_of(text) for text in texts}) == len(texts)


@given(
    st.lists(st.text(max_size=6) | st.text("aáAb ,.1", max_size=4), min_size=1, max_size=8),
    st.randoms(use_true_random=False),
)
def test_the_order_does_not_matter(texts, rng):
    best = best_of(Counter(texts))
    assert best in texts
    rng.shuffle(texts)
    assert best_of(Counter(texts)) == best


def test_only_what_may_be_the_best_is_taken():
    """What may not be the best still says what the others are near to."""
    assert best_of({"chudleigh": 3, "tom b": 1, "tom c": 1}, {"tom b", "tom c"}) == "tom b"
    stated = {"chudleigh": 3, "tom bell": 1, "tom chudleigh": 1, "tom corbett": 1}
    assert best_of(stated, stated.keys() - {"chudleigh"}) == "tom chudleigh"


def test_the_time_is_linear_in_the_spellings():
    """Of 20,000 names that stand once a bounded number is compared, the same in any order."""
    rng = random.Random(1)
    texts = ["".join(rng.choices("abcdefgh", k=12)) for _ in range(20_000)]
    best = best_of(dict.fromkeys(texts, 1))
    rng.shuffle(texts)
    assert best_of(dict.fromkeys(texts, 1)) == best


def words_of(fragments):
    return Words.of(statements_of(fragments))


def test_words_of_several_fragments_are_not_rare():
    """Whatever the size of the table; hardly any other word passes for one."""
    rng = random.Random(2)
    words = ["".join(rng.choices("abcdefghijklm", k=8)) for _ in range(3_000)]
    frequent, once = words[:1_000], words[1_000:]
    texts = [f"{rng.choice(frequent)} {word}" for word in once]
    several = {word for word, n in Counter(text.split()[0] for text in texts).items() if n > 1}
    found = words_of([Fragment(str(at), {"name": (text,)}) for at, text in enumerate(texts)])
    assert sum(map(found.rare, several)) == 0
    assert sum(map(found.rare, once)) > 0.95 * len(once)
    assert len(found.bits) < 10_000
    again = words_of([Fragment(str(at), {"name": (text,)}) for at, text in enumerate(texts[::-1])])
    assert (again.bits == found.bits).all()


def test_a_word_that_one_fragment_repeats_is_rare():
    twice = Fragment("0", {"name": ("Ruth Maosn",), "alias": ("MAOSN, R.",)})
    other = Fragment("1", {"name": ("Ruth Cole",), "email": ("maosn@post.example",)})
    words = words_of([twice, other])
    assert (words.rare("Ruth Maosn"), words.rare("Rúth"), words.rare("17 Ruth Lane")) == (1, 0, 0)


def test_long_texts_are_compared_by_how_they_begin():
    """Of 32 texts of a megabyte each, which would take hours as a whole."""
    texts = {"a" * 1_000_000 + chr(ord("a") + k): 1 for k in range(26)}
    assert best_of(texts) == "a" * 1_000_001
