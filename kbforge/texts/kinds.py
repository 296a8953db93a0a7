"""Kinds of attributes: what their values are, and which features two values may share.

A feature is a part of a value that survives when the rest is distorted. `urn` draws a variant of a
value from all values that share a feature with it.

| kind | features |
|---|---|
| text | first letter, first three letters, words, all words in any order, a word and an initial |
| title | words, pairs of neighbouring words, the two longest words; codes count as words |
| date, month first | year and month, year and day, month and day, year |
| code | what stands before the first gap, the leading letters or digits |
| number | its two leading digits and magnitude |
| category | none |
| set | members, words |
| email | what is before the @, its first three letters, its words, what is after the @ |
| phone | the last six digits, the leading four |
| nothing | none: serial numbers and times of entry are not read |

Several values of an attribute (authors, aliases, types) are read as one value, the set: they occur
together, so they are not separate evidence.

Values are read by their meaning:

| kind | "as written" | as read |
|---|---|---|
| e-mail | Ann.Lee+news@GMail.com | annlee@gmail.com |
| phone | +44 20 7946 0018, (020) 7946-0018 | 2079460018, its last nine digits |
| date | 3/5/1984, 03 May 1984, 19840503 | 1984-05-03 |
| month first | 5/3/1984 | 1984-05-03 |
| nothing | a running number, a time of entry | "" |

The kind of an attribute follows from the form of most of its values (`kind_of`). Placeholders
("n/a", 0000-00-00) are read as absent for every kind.

*Idle* attributes say nothing about entities: source, campaign, clerk. Two records are *related* if
they share rare values of two other attributes. If they agree on most of the rest, they are mostly
one entity, and what describes entities agrees more often among them than by chance,

    chance = sum over values v of p_v^2

whereas the source of a record does not. Only attributes with few values are tested: if values
hardly repeat, equality by chance is rare and its absence is uninformative.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, pairwise
from typing import Literal, TypeAlias, get_args
from zlib import crc32

EMAIL = re.compile(r"([^\s@,;]{1,64})@([^\s@,;]{1,190}\.[a-z]{2,24})", re.ASCII)
_EMAILS_WITHOUT_DOTS = frozenset(("gmail.com", "googlemail.com"))
_NO_ONE = frozenset(
    (
        *("none", "no", "na", "n/a", "nomail", "noemail", "no-email", "no.email", "unknown"),
        *("noreply", "no-reply", "donotreply", "do-not-reply", "nobody", "null", "test", "x", "xx"),
        *("xxx", "a", "abc", "asdf", "email", "example", "placeholder"),
    )
)
_NOWHERE = re.compile(
    r"(?:none|noemail|nomail|unknown|test|null|example|invalid|localhost|placeholder)\.\w+"
)
_SAYS_NOTHING = frozenset(
    (
        *("n/a", "n.a.", "#n/a", "n / a", "none", "null", "<null>", "(null)", "nil", "unknown"),
        *("not available", "not known", "not given", "not applicable", "no data", "missing"),
        *("undefined", "unspecified", "tba", "tbd", "test", "xxx", "0000-00-00", "00/00/0000"),
        *("00.00.0000", "0000/00/00", "0000-00-00 00:00:00"),
    )
)
_SIGNS = " -–—?._*/#"
_COUNTING = ("123456789", "12345678", "1234567", "987654321")
_LEAST_PHONE, _MOST_PHONE = 7, 15
_ANY_PHONE = re.compile(
    r"(?:(?:tel|ph|phone|mob|mobile|fax)[.:]? ?)?\+?[\d(][\d ()/.-]{5,24}"
    r"(?: ?(?:ext|x)[.:]? ?\d{1,5})?"
)
_EXTENSION = re.compile(r" ?(?:ext|x)[.:]? ?\d{1,5}\Z")
_SIGNIFICANT = 9
# country codes of one digit and of two; all others have three (ITU-T E.164)
_SHORT_CODES = frozenset(
    (
        *("1", "7", "20", "27", "30", "31", "32", "33", "34", "36", "39", "40", "41", "43", "44"),
        *("45", "46", "47", "48", "49", "51", "52", "53", "54", "55", "56", "57", "58", "60", "61"),
        *("62", "63", "64", "65", "66", "81", "82", "84", "86", "90", "91", "92", "93", "94", "95"),
        "98",
    )
)


def says_nothing(value: str) -> bool:
    """Whether a normalised value is a placeholder for an unknown one."""
    return value in _SAYS_NOTHING or not value.strip(_SIGNS)


def email(value: str) -> str:
    """An address without its tag; "" if it is a placeholder."""
    found = EMAIL.fullmatch(value.removeprefix("mailto:"))
    if found is None:
        return value
    local, domain = found[1].split("+", 1)[0] or found[1], found[2]
    if local in _NO_ONE or _NOWHERE.fullmatch(domain):
        return ""
    if domain in _EMAILS_WITHOUT_DOTS:
        local = local.replace(".", "")
    return f"{local}@{domain}"


def is_phone(value: str) -> bool:
    """Whether a normalised value has the form of a telephone number."""
    if _ANY_PHONE.fullmatch(value) is None:
        return False
    return _LEAST_PHONE <= sum(map(str.isdigit, _EXTENSION.sub("", value))) <= _MOST_PHONE


def is_written_as_phone(value: str) -> bool:
    """Whether it has separators between its digits that telephone numbers have and other codes
    lack."""
    return value[:1] in "+(" or " " in value or "/" in value or value.count("-") > 1


def phone(value: str) -> str:
    """The last digits of a national number; "" for a placeholder; other values stay."""
    if not is_phone(value):
        return value
    value = _EXTENSION.sub("", value)
    digits = re.sub(r"\D", "", value)
    if "+" in value:
        width = next((n for n in (1, 2) if digits[:n] in _SHORT_CODES), 3)
        digits = digits[width:]
    digits = digits.lstrip("0")[-_SIGNIFICANT:]
    return "" if len({*digits}) < 2 or digits in _COUNTING else digits


_TIME = re.compile(
    r"[ t]\d{1,2}:\d{2}(?::\d{2})?(?:[.,]\d+)?(?: ?[ap]m)?(?:z| ?[+-]\d{2}:?\d{2})?\Z"
)
_RUNNING = re.compile(r"([^\W\d]*[-_#/]?)(\d{1,15})")
_FEWEST_RUNNING = 30
_SPREAD_OF_RUNNING = 4
_SHARE_OF_TIMES = 0.9


def has_time(value: str) -> bool:
    """Whether a value ends in a time of day, after a date."""
    return len(value) > 8 and _TIME.search(value) is not None


def are_times(counts: Mapping[str, int]) -> bool:
    """Whether values that hardly repeat are times of entry."""
    if not counts or len(counts) < _SHARE_OF_TIMES * sum(counts.values()):
        return False
    return sum(map(has_time, counts)) >= _SHARE_OF_TIMES * len(counts)


def is_running(counts: Mapping[str, int]) -> bool:
    """Whether the values never repeat and are one prefix followed by numbers from a dense range."""
    if len(counts) < _FEWEST_RUNNING or len(counts) < sum(counts.values()):
        return False
    found = list(map(_RUNNING.fullmatch, counts))
    numbers = [int(one[2]) for one in found if one]
    if len(numbers) < len(found) or len({one[1] for one in found if one}) > 1:
        return False
    return max(numbers) - min(numbers) < _SPREAD_OF_RUNNING * len(numbers)


_AMOUNT = re.compile(
    r"[$£€¥]? ?(\d{1,3}(?:,\d{3})+|\d{1,15})(\.\d{1,6})? ?(?:[$£€¥]|usd|eur|gbp)?", re.ASCII
)
_SHARE_OF_AMOUNTS, _SHARE_OF_FRACTIONS = 0.8, 0.2
_LEAST_SPREAD = 3.0


def amount(value: str) -> float:
    """The number that a value states, with or without a currency, at least 0; -1 for none."""
    found = _AMOUNT.fullmatch(value)
    return float(found[1].replace(",", "") + (found[2] or "")) if found else -1.0


def are_amounts(values: Collection[str]) -> bool:
    """Whether different values are magnitudes, such as prices, and not codes."""
    numbers = sorted(number for number in map(amount, values) if number > 0)
    if len(numbers) < max(_SHARE_OF_AMOUNTS * len(values), 10):
        return False
    fractions = sum(not value.isdigit() for value in values)
    tenth = len(numbers) // 10
    return (
        fractions >= _SHARE_OF_FRACTIONS * len(values)
        and numbers[-1 - tenth] > _LEAST_SPREAD * numbers[tenth]
    )


Kind: TypeAlias = Literal[
    "text",
    "title",
    "date",
    "month first",
    "code",
    "number",
    "category",
    "set",
    "email",
    "phone",
    "nothing",
]
KINDS: tuple[Kind, ...] = get_args(Kind)

Features: TypeAlias = dict[str, tuple[str, ...]]
"""Feature name -> the value's features of that name, distinct."""

LONGEST_VALUE = 400
"""Maximum number of characters of a value that are read; the rest is cut."""

_MOST_WORDS = 32
_MOST_MEMBERS = 32
_BETWEEN = "\n"  # no normalised value has a line break
_WORD = re.compile(r"\w+")
_GAP = re.compile(r"[\s/._-]+")
_CODE_IN_TITLE = re.compile(r"[^\W_]+(?:[-./_][^\W_]+)+")
_LEADING = re.compile(r"[^\W\d_]+|\d+")
_ISO_DATE = re.compile(r"(-?\d{3,4})(?:-(\d{1,2}))?(?:-(\d{1,2}))?(?:t.*)?\Z")
_YEAR_FIRST = re.compile(r"(\d{4})[/.](\d{1,2})[/.](\d{1,2})\Z")
_YEAR_LAST = re.compile(r"(\d{1,2})([/.-])(\d{1,2})\2(\d{4}|\d{2})\Z")
_COMPACT = re.compile(r"(1[5-9]\d\d|20\d\d)(\d\d)(\d\d)\Z")
_IN_WORDS = re.compile(
    r"(?:(\d{1,2})(?:st|nd|rd|th)?[ -])?([a-z]{3,9})\.?,?[ -](?:(\d{1,2})(?:st|nd|rd|th)?,? )?"
    r"(\d{4})\Z"
)
_FIRST_OF_CENTURY = 30  # a year of two digits is of the last century from here
_NUMBER = re.compile(r"[-+]?[$£€]?\s?\d[\d,]*(?:\.\d+)?\s?%?\Z")
_PHONE = re.compile(r"(?:\+|00)([1-9](?:(?: ?\(0\)|[ ()/.-]*)\d){6,14})", re.ASCII)
_GROUPED = re.compile(r"([-+]?[$£€]?)(\d{1,3}(?:,\d{3})+)(?:\.(\d+))?", re.ASCII)
# zeros at the end say nothing, but in a version, 1.10, they do
_DECIMAL = re.compile(r"([-+]?[$£€]?)(\d{3,}(?=\.)|\d+(?=\.0+\Z))\.(\d+)", re.ASCII)
_BEGINS_NUMBER = "0123456789+-$£€"
_PART_OF_NAME = r"([^\W\d_][^\d,;:&/]*)"
_SURNAME_FIRST = re.compile(f"{_PART_OF_NAME}, {_PART_OF_NAME}")
_MONTHS_OF_YEAR = 12
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

_SAMPLE = 5000
_FEW_VALUES = 60
_SHARE_OF_DATES, _SHARE_OF_NUMBERS, _SHARE_OF_CODES, _SHARE_OF_SETS = 0.8, 0.9, 0.6, 0.1
_SHARE_OF_EMAILS, _SHARE_OF_PHONES, _SHARE_WRITTEN_AS_PHONES = 0.7, 0.8, 0.3
_FEWEST_ATTRIBUTES = 2
_LONGEST_CODE = 24
_ENDING, _BEGINNING = 6, 4
_WORDS_OF_A_TITLE = 4.0


@lru_cache(maxsize=1 << 16)
def normalised(value: str) -> str:
    """A value in comparable form: compatibility form, case folded, single spaces, bounded length.

    Equivalent values get the same spelling: +49 174 1234567 becomes 00491741234567, 1,234.50
    becomes 1234.5, 12.0 becomes 12, "Ohlsson, Margarethe" becomes "Margarethe Ohlsson".
    """
    folded = unicodedata.normalize("NFKC", value[:LONGEST_VALUE]).casefold()
    return _meant(" ".join(folded.split())[:LONGEST_VALUE])


def _meant(value: str) -> str:
    """One spelling for all forms of a number, phone number or name."""
    first = value[:1]
    if first in "+0" and (found := _PHONE.fullmatch(value)):
        return "+" + re.sub(r"\(0\)|\D", "", found[1])
    if first in _BEGINS_NUMBER and (
        found := _GROUPED.fullmatch(value) or _DECIMAL.fullmatch(value)
    ):
        sign, whole, fraction = found.groups(default="")
        return f"{sign}{whole.replace(',', '')}.{fraction}".rstrip("0").removesuffix(".")
    if ", " in value and (found := _SURNAME_FIRST.fullmatch(value)):
        return f"{found[2]} {found[1]}"
    return value


def stated(values: Sequence[str]) -> str:
    """A record's values of an attribute as one: normalised, distinct, sorted; "" if all are
    blank."""
    if len(values) == 1:
        value = normalised(values[0])
        return "" if says_nothing(value) else value
    parts = sorted({v for v in map(normalised, values) if not says_nothing(v)} - {""})
    return _BETWEEN.join(parts[:_MOST_MEMBERS])


def kind_of(counts: Mapping[str, int]) -> Kind:
    """The kind of an attribute, from how often each value (`stated`) occurs."""
    several = sum(n for value, n in counts.items() if _BETWEEN in value)
    if several and several >= _SHARE_OF_SETS * sum(counts.values()):
        return "set"
    values = sorted(counts)[:: max(1, len(counts) // _SAMPLE)]
    if not values:
        return "category"
    if (
        _share(values, lambda value: "@" in value and EMAIL.fullmatch(value) is not None)
        >= _SHARE_OF_EMAILS
    ):
        return "email"
    if _share(values, _is_full_date) >= _SHARE_OF_DATES:
        return _order_of(values)
    if len(counts) <= _FEW_VALUES and sum(counts.values()) >= 20 * len(counts):
        return "category"
    if (
        _share(values, is_phone) >= _SHARE_OF_PHONES
        and _share(values, is_written_as_phone) >= _SHARE_WRITTEN_AS_PHONES
    ):
        return "phone"
    if _share(values, lambda value: bool(_NUMBER.match(value))) >= _SHARE_OF_NUMBERS:
        return "number"
    if _share(values, _is_code) >= _SHARE_OF_CODES:
        return "code"
    words = sum(len(words_of(value)) for value in values) / len(values)
    return "title" if words > _WORDS_OF_A_TITLE else "text"


def kinds_of(counts: Mapping[str, Mapping[str, int]]) -> dict[str, Kind]:
    """The kinds of all attributes of a file, from how often each value (`stated`) occurs.

    Serial numbers and times of entry are `nothing` if enough other attributes are left.
    """
    stating = {
        a: {v: n for v, n in of.items() if v} if "" in of else of for a, of in counts.items()
    }
    kinds = {attribute: kind_of(of) for attribute, of in stating.items()}
    idle = [a for a, of in stating.items() if is_running(of) or are_times(of)]
    if len(kinds) - len(idle) >= _FEWEST_ATTRIBUTES:
        kinds |= dict.fromkeys(idle, "nothing")
    return kinds


def words_of(value: str) -> list[str]:
    """Runs of letters and digits, including marks such as the vowels of Indic scripts."""
    if value.isascii():
        return _WORD.findall(value)
    return "".join(c if is_of_word(c) else " " for c in value).split()


def is_of_word(character: str) -> bool:
    """Whether a character is a letter, a digit, an underscore or a mark."""
    return bool(_WORD.match(character)) or unicodedata.category(character).startswith("M")


def features_of(kind: Kind, value: str) -> Features:
    """The features of a normalised value, by name, without empty ones."""
    return {name: keys for name, keys in _FEATURES[kind][0](value).items() if keys}


def feature_names(kind: Kind) -> tuple[str, ...]:
    """The names of a kind's features."""
    return _FEATURES[kind][1]


def parse_date(value: str, month_first: bool = False) -> tuple[str, str, str] | None:
    """(year, month, day) as digits, "" if not given; None if it is not a date.

    Digits are not checked against the calendar, because typos make months such as 86, except to
    decide which of two numbers is the month.
    """
    if found := _ISO_DATE.match(value) or _YEAR_FIRST.match(value):
        year, month, day = found.groups()
        return year, month.zfill(2) if month else "", day.zfill(2) if day else ""
    if found := _YEAR_LAST.match(value):
        first, between, second, year = found.groups()
        if len(year) == 2:
            year = f"{19 if int(year) >= _FIRST_OF_CENTURY else 20}{year}"
        swapped = month_first and between != "."
        if int(second) > _MONTHS_OF_YEAR >= int(first):
            swapped = True
        elif int(first) > _MONTHS_OF_YEAR >= int(second):
            swapped = False
        day, month = (second, first) if swapped else (first, second)
        return year, month.zfill(2), day.zfill(2)
    if (found := _IN_WORDS.match(value)) and found[2][:3] in _MONTHS:
        day = found[1] or found[3]
        return found[4], f"{_MONTHS.index(found[2][:3]) + 1:02}", day.zfill(2) if day else ""
    if found := _COMPACT.match(value):
        return found[1], found[2], found[3]
    return None


@lru_cache(maxsize=1 << 16)
def read_as(kind: Kind, value: str) -> str:
    """A value (`stated`) in the spelling of its kind; "" if it is uninformative."""
    read = _READINGS.get(kind)
    if read is None or not value:
        return value
    if _BETWEEN not in value:
        return read(value)
    return _BETWEEN.join(sorted({*map(read, value.split(_BETWEEN))} - {""}))


def read_otherwise(kinds: Mapping[str, Kind]) -> dict[str, Kind]:
    """The kinds of those attributes whose values `read_as` may change."""
    return {attribute: kind for attribute, kind in kinds.items() if kind in _READINGS}


def _as_date(value: str, month_first: bool = False) -> str:
    parsed = None if has_time(value) else parse_date(value, month_first)
    return value if parsed is None else "-".join(filter(None, parsed))


_READINGS: Mapping[Kind, Callable[[str], str]] = {
    "date": _as_date,
    "month first": lambda value: _as_date(value, month_first=True),
    "email": email,
    "phone": phone,
    "nothing": lambda value: "",
}


def _order_of(values: Iterable[str]) -> Kind:
    """The kind of dates, if the sizes of days show that the month mostly comes first."""
    found = [one for one in map(_YEAR_LAST.match, values) if one and one[2] != "."]
    first = sum(int(one[3]) > _MONTHS_OF_YEAR >= int(one[1]) for one in found)
    last = sum(int(one[1]) > _MONTHS_OF_YEAR >= int(one[3]) for one in found)
    return "month first" if first > last else "date"


def _share(values: Collection[str], test: Callable[[str], bool]) -> float:
    return sum(map(test, values)) / len(values)


def _is_full_date(value: str) -> bool:
    parsed = parse_date(value)
    if parsed is None:
        return False
    _, month, day = parsed
    if value.isdigit() and len(value) > 4:
        return "01" <= month <= "12" and "01" <= day <= "31"
    # a bare number of four digits is a year only among dates
    return bool(month) or len(value) == 4


def has_digit(word: str) -> bool:
    """Whether some character is a digit."""
    return any(map(str.isdigit, word))


def _is_code(value: str) -> bool:
    return has_digit(value) and len(value) <= _LONGEST_CODE and len(value.split()) <= 3


def _text(value: str) -> Features:
    words = tuple(dict.fromkeys(words_of(value)))[:_MOST_WORDS]
    with_initial = {
        f"{word} {other[0]}" for word in words[:4] for other in words[:4] if word != other
    }
    return {
        "initial": (value[0],) if value else (),
        "prefix": (value[:3],) if len(value) > 3 else (),
        "word": words,
        "words": (" ".join(sorted(words)),) if len(words) > 1 else (),
        "word and initial": tuple(sorted(with_initial)),
    }


def _title(value: str) -> Features:
    words = tuple(dict.fromkeys(words_of(value)))[:_MOST_WORDS]
    # a code is one word, whichever way it is written: WRT-54G, WRT54G
    joined = (re.sub(r"[-./_]", "", found) for found in _CODE_IN_TITLE.findall(value))
    codes = tuple(dict.fromkeys(filter(has_digit, joined)))[:_MOST_WORDS]
    longest = sorted(words, key=lambda word: (-len(word), word))[:2]
    return {
        "word": tuple(dict.fromkeys((*words, *codes))),
        "pair": tuple(dict.fromkeys(" ".join(pair) for pair in pairwise(words))),
        "longest": (" ".join(longest),) if len(longest) == 2 else (),
    }


def _date(value: str) -> Features:
    parsed = parse_date(value)
    if parsed is None:
        return {}
    year, month, day = parsed
    return {
        "year and month": (f"{year}-{month}",) if month else (),
        "year and day": (f"{year}--{day}",) if day else (),
        "month and day": (f"{month}-{day}",) if month and day else (),
        "year": (year,),
    }


def _code(value: str) -> Features:
    stem = _GAP.split(value, maxsplit=1)[0]
    leading = _LEADING.match(value)
    return {
        "stem": (stem,) if stem not in ("", value) else (),
        "leading": (leading[0],) if leading and leading[0] not in (stem, value) else (),
    }


def _number(value: str) -> Features:
    digits = re.sub(r"[^\d.]", "", value)
    whole = digits.split(".")[0].lstrip("0")
    return {"magnitude": (f"{whole[:2]}e{len(whole)}",) if whole else ()}


def _email(value: str) -> Features:
    local, _, domain = value.partition("@")
    words = words_of(local.replace("_", " "))
    compact = "".join(words)
    return {
        "local": (compact,) if compact else (),
        "prefix": (value[:3],) if len(value) > 3 else (),
        "word": tuple(dict.fromkeys(w for w in words if len(w) > 1))[:_MOST_WORDS],
        "domain": (domain,) if domain else (),
    }


def _phone(value: str) -> Features:
    if len(value) <= _ENDING:
        return {}
    return {"ending": (value[-_ENDING:],), "beginning": (value[:_BEGINNING],)}


def _set(value: str) -> Features:
    members = tuple(dict.fromkeys(filter(None, value.split(_BETWEEN))))
    return {
        "member": members,
        "word": tuple(dict.fromkeys(words_of(value)))[:_MOST_WORDS],
    }


_FEATURES: Mapping[Kind, tuple[Callable[[str], Features], tuple[str, ...]]] = {
    "text": (_text, ("initial", "prefix", "word", "words", "word and initial")),
    "title": (_title, ("word", "pair", "longest")),
    "date": (_date, ("year and month", "year and day", "month and day", "year")),
    "code": (_code, ("stem", "leading")),
    "number": (_number, ("magnitude",)),
    "month first": (_date, ("year and month", "year and day", "month and day", "year")),
    "category": (lambda value: {}, ()),
    "email": (_email, ("local", "prefix", "word", "domain")),
    "phone": (_phone, ("ending", "beginning")),
    "nothing": (lambda value: {}, ()),
    "set": (_set, ("member", "word")),
}
"""For each kind, the function that returns a value's features, and their names."""


MOST_HOLDERS = 4
"""Maximum number of records with a value that relates them."""
_FEWEST_PAIRS = 50
_RARE = 2
_LEAST_AGREEMENT = 0.15
_MOST_ROWS = 20_000
_LEAST_CHANCE = 0.02
_LEAST_LIFT = 0.05
_FEWEST_OTHERS = 2


def idle_attributes(
    said: Sequence[Mapping[str, str]], counts: Mapping[str, Mapping[str, int]], records: int = 0
) -> frozenset[str]:
    """The attributes with few values that are uninformative about which records are one entity.

    `said` has values of records by attribute, as read, without blank ones: of all, or at least of
    those with a value that `relates` them; `counts` has how many of all the `records` (by default
    those given) state each value, by attribute.
    """
    chance = {
        attribute: found
        for attribute, of in counts.items()
        if len(of) > 1 and (found := _agreement_by_chance(of)) >= _LEAST_CHANCE
    }
    if not chance or len(counts) - len(chance) < _FEWEST_OTHERS:
        return frozenset()
    pairs = _related(said, counts, chance.keys(), max(records, len(said)))
    idle = set()
    for attribute, by_chance in chance.items():
        both = [(a[attribute], b[attribute]) for a, b in pairs if attribute in a and attribute in b]
        if len(both) >= _FEWEST_PAIRS:
            agree = sum(a == b for a, b in both) / len(both)
            if (agree - by_chance) / (1 - by_chance) < _LEAST_LIFT:
                idle.add(attribute)
    return frozenset(idle)


def relates(value: str, holders: int, records: int) -> bool:
    """Whether a value that so many of the records state is rare enough to relate them.

    Of a large file some values do, chosen by themselves, so that their holders stay together.
    """
    every = 1 + records // _MOST_ROWS
    return 2 <= holders <= MOST_HOLDERS and (
        every == 1 or not crc32(value.encode(errors="surrogatepass")) % every
    )


def _agreement_by_chance(counts: Mapping[str, int]) -> float:
    """The probability that two records that state an attribute agree on it."""
    total = sum(counts.values())
    return sum((n / total) ** 2 for n in counts.values())


def _related(
    said: Sequence[Mapping[str, str]],
    counts: Mapping[str, Mapping[str, int]],
    leaving_out: Iterable[str],
    records: int,
) -> list[tuple[Mapping[str, str], Mapping[str, str]]]:
    """Pairs of records that share rare values of two attributes; empty unless they share others."""
    out = {*leaving_out}
    holders: dict[tuple[str, str], list[int]] = {}
    for row, record in enumerate(said):
        for attribute, value in record.items():
            if attribute not in out and relates(value, counts[attribute][value], records):
                holders.setdefault((attribute, value), []).append(row)
    shared = Counter(pair for rows in holders.values() for pair in combinations(rows, 2))
    pairs, stated, agreed = [], 0, 0
    for (i, j), n in shared.items():
        if n < _RARE:
            continue
        a, b = said[i], said[j]
        pairs.append((a, b))
        both = (a.keys() & b.keys()) - out
        stated += len(both) - _RARE
        agreed += sum(a[name] == b[name] for name in both) - _RARE
    sure = stated >= _FEWEST_PAIRS and agreed >= _LEAST_AGREEMENT * stated
    return pairs if sure else []
