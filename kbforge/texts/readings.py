"""Normalizes values by their meaning: dates, telephone numbers, e-mail addresses.

| kind | "as written" | as read |
|---|---|---|
| e-mail | Ann.Lee+news@GMail.com | annlee@gmail.com |
| phone | +44 20 7946 0018, (020) 7946-0018 | 2079460018, its last nine digits |
| date | 3/5/1984, 03 May 1984, 19840503 | 1984-05-03 |
| month first | 5/3/1984 | 1984-05-03 |
| nothing | a running number, a time of entry | "" |

The kind of an attribute is told by its values, most of which have the form (`kinds.kind_of`).
Values that say nothing ("n/a", 0000-00-00) are read as absent whatever the kind.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

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
_PHONE = re.compile(
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
    """Whether a normalised value stands for one that is not known."""
    return value in _SAYS_NOTHING or not value.strip(_SIGNS)


def email(value: str) -> str:
    """An address without its tag; "" if it is no one's."""
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
    if _PHONE.fullmatch(value) is None:
        return False
    return _LEAST_PHONE <= sum(map(str.isdigit, _EXTENSION.sub("", value))) <= _MOST_PHONE


def is_written_as_phone(value: str) -> bool:
    """Whether it has signs between its digits that telephone numbers have and other codes lack."""
    return value[:1] in "+(" or " " in value or "/" in value or value.count("-") > 1


def phone(value: str) -> str:
    """The last digits of a national number; "" of a placeholder, and what is no number as it is."""
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
    """Whether values that hardly repeat are times: each says when it was written."""
    if not counts or len(counts) < _SHARE_OF_TIMES * sum(counts.values()):
        return False
    return sum(map(has_time, counts)) >= _SHARE_OF_TIMES * len(counts)


def is_running(counts: Mapping[str, int]) -> bool:
    """Whether the values never repeat and are one prefix with the numbers of one dense range."""
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
    """Whether different values are magnitudes, such as prices, and no codes."""
    numbers = sorted(number for number in map(amount, values) if number > 0)
    if len(numbers) < max(_SHARE_OF_AMOUNTS * len(values), 10):
        return False
    fractions = sum(not value.isdigit() for value in values)
    tenth = len(numbers) // 10
    return (
        fractions >= _SHARE_OF_FRACTIONS * len(values)
        and numbers[-1 - tenth] > _LEAST_SPREAD * numbers[tenth]
    )
