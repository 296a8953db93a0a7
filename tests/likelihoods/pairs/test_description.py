"""What pairs of rows are described by, which pairs are looked at, and keys of many fragments."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from kbforge.contracts import Fragment
from kbforge_plugins.likelihoods.pairs.file import FEATURES, File
from kbforge_plugins.likelihoods.pairs.likelihood import Pairs
from kbforge_plugins.likelihoods.pairs.table import (
    acronyms_of,
    folded,
    script_of,
    skeleton,
    statement_of,
)
from tests.people import people


def called(*names: str, **others: str) -> Fragment:
    return Fragment(names[0], {"name": names, **{key: (v,) for key, v in others.items()}})


def fitted(fragments: Sequence[Fragment]) -> File:
    return File.fitted(fragments)[0]


def row_of(file: File, fragment: Fragment) -> int:
    row = file.row(statement_of(fragment))
    assert row is not None
    return row


def described(file: File, one: Fragment, other: Fragment) -> dict[str, float]:
    i, j = (np.array([row_of(file, f)]) for f in (one, other))
    row = file.describe(file.rows, i, file.rows, j)[0]
    return dict(zip(FEATURES, row.tolist(), strict=True))


@pytest.mark.parametrize(
    ("written", "other"),
    [
        *(("Москва", "Moskva"), ("Αθήνα", "Athina"), ("Schwarz", "Svarz"), ("Müller", "Muller")),
        *(("北京", "Beijing"), ("とうきょう", "Tokyo"), ("서울", "Seoul"), ("თბილისი", "Tbilisi")),
        *(("Երևան", "Yerevan"), ("दिल्ली", "Dilli"), ("ภูเก็ต", "Phuket")),
        *(("نصيبين", "Nasibin"), ("שמעון", "Shimon"), ("ܐܢܛܝܘܟܝܐ", "Antiokia")),
    ],
)
def test_spellings_of_one_name_have_one_skeleton(written, other):
    one, two = (skeleton(folded(name.casefold())) for name in (written, other))
    assert one == two


def test_acronyms_leave_out_small_words():
    words = ["university", "of", "new", "york"]
    assert acronyms_of(words) == ("uony", "uny")
    assert acronyms_of(["one"]) == ("", "")


def test_an_acronym_and_a_transliteration_are_candidates():
    fragments = [
        *(called("National Health Service"), called("NHS")),
        *(called("Дмитров"), called("Dmitrov")),
        *(called(f"filler {i} word{i}") for i in range(30)),
    ]
    file, found = File.fitted(fragments)
    pairs = {tuple(pair) for pair in found.tolist()}
    for one, other in ((0, 1), (2, 3)):
        rows = sorted(row_of(file, fragments[k]) for k in (one, other))
        assert tuple(rows) in pairs


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("Москва", "Минск"),
        ("東京", "とうきょう"),
        ("Moskva", "Łódź"),
        ("12", "Oslo"),
        ("A 東", "B"),
    ],
)
def test_names_of_one_script(name, other):
    assert script_of(name) == script_of(other)


def test_names_of_different_scripts():
    names = ("Moskva", "Москва", "Μόσχα", "莫斯科", "모스크바", "موسكو", "מוסקבה", "მოსკოვი")
    assert len(set(map(script_of, names))) == len(names)


def in_two_scripts() -> list[Fragment]:
    """Three cities in Latin letters and in Chinese, and others in one of them."""
    same = [("Panevėžys", "帕內韋日斯"), ("Bratislava", "布拉迪斯拉发"), ("Olinda", "奧林達")]
    latin = [f"{a}{b}" for a in ("Bran", "Tor", "Kel", "Mon", "Ver") for b in "aeiou"]
    chinese = [f"{a}{b}" for a in "阿布卡德法" for b in "尔克姆特亚"]
    return [called(name) for name in itertools.chain(*same, latin, chinese)]


def test_names_in_two_scripts_are_candidates_by_their_consonants():
    fragments = in_two_scripts()
    file, found = File.fitted(fragments)
    pairs = {tuple(pair) for pair in found.tolist()}
    for k in (0, 2, 4):
        rows = sorted(row_of(file, one) for one in fragments[k : k + 2])
        assert tuple(rows) in pairs
    # nor are all pairs of two scripts
    scripts = file.rows.table.script[found]
    assert (scripts[:, 0] != scripts[:, 1]).sum() < 8 * len(fragments)
    assert described(file, *fragments[:2])["scripts differ"] == 1.0
    assert described(file, fragments[0], fragments[2])["scripts differ"] == 0.0


@pytest.mark.parametrize("known", [0, 1])
def test_a_later_row_finds_its_name_in_another_script(known):
    """In the file, or among later rows."""
    one, other, *rest = in_two_scripts()[2:]
    model = Pairs()
    model.fit([one, *rest] if known else rest)
    odds = model.index._odds  # type: ignore[attr-defined]
    first, second = odds.encode(one), odds.encode(other)
    assert second in odds.near(first)
    assert first in odds.near(second)


def test_features_do_not_depend_on_which_row_is_first():
    fragments = [
        called("Ada Lovelace", "Countess of Lovelace", born="1815", city="London"),
        called("A. Lovelace", born="1815"),
        called("Lovelace, Ada", city="Paris", code="K-17"),
        called("Martha", code="K-71"),
        called("Marhta", "Lovelace", code="K-71"),
    ]
    file = fitted(fragments)
    n = len(file.counts)
    i, j = (a.ravel() for a in np.meshgrid(np.arange(n), np.arange(n)))
    there = file.describe(file.rows, i, file.rows, j)
    back = file.describe(file.rows, j, file.rows, i)
    np.testing.assert_array_equal(there, back)


def test_of_several_names_the_nearest_are_described():
    one = called("EU", "European Union")
    other = called("European Union")
    file = fitted([one, other, called("Eurovision")])
    assert described(file, one, other)["name equal"] == 1.0


def test_a_conflict_counts_where_the_attribute_tells_entities_apart():
    people = []
    for k in range(40):
        people += [
            called(f"name{k} surname{k}", code=f"{k:04}", colour="red" if k % 2 else "blue"),
            called(f"name{k} surname{k}", code=f"{k:04}", colour="green", note=f"n{k}"),
        ]
    file = fitted(people)
    assert file.worths["code"].functional > 0.9
    assert file.worths["colour"].functional < 0.1


def test_a_row_met_later_is_described_like_one_of_the_file():
    """Apart from what counts how often it was seen, the same numbers come out."""
    fragments = [called(f"name{k} common", city=f"town{k % 5}") for k in range(20)]
    file = fitted(fragments)
    met, near = file.placed(statement_of(called("name3 common", city="town1")))
    row = row_of(file, fragments[3])
    assert row in near.tolist()
    features = file.describe(met, np.array([0]), file.rows, np.array([row]))[0]
    said = dict(zip(FEATURES, features.tolist(), strict=True))
    assert (said["name equal"], said["different values"] + said["equal values"]) == (1.0, 0.0)


@pytest.mark.parametrize(
    "fragments",
    [
        [],
        [Fragment("a", {}, (1.0,))],
        [Fragment("a", {"name": (" ",)}), Fragment("b", {"name": ("x " * 40_000,)})],
        [Fragment(str(k), {"name": tuple(f"n{k} {m}" for m in range(500))}) for k in range(4)],
        [Fragment(str(k), {f"a{m}": ("v",) for m in range(200)}) for k in range(4)],
    ],
)
def test_whatever_is_stated_can_be_described(fragments):
    file = fitted(fragments)
    n = len(file.counts)
    i, j = (a.ravel() for a in np.meshgrid(np.arange(n), np.arange(n)))
    features = file.describe(file.rows, i, file.rows, j)
    assert features.shape == (n * n, len(FEATURES))
    assert not np.isinf(features).any()


@pytest.mark.slow
@pytest.mark.parametrize("known", [0, 60, 200])
def test_keys_of_many_are_those_of_each(known):
    """Where the file has all of them, and where it does not."""
    fragments = [*people(70, 5, error=0.3), Fragment("empty", {})]
    model = Pairs()
    model.fit(fragments[:known] if known < len(fragments) else fragments)
    for some in (fragments[:known], fragments, fragments[:1], []):
        starts, keys = model.index.keys_of(some)
        told = [keys[a:b].tolist() for a, b in itertools.pairwise(starts)]
        assert told == [list(model.index.keys(f)) for f in some]
