"""Forms of a string that survive another spelling, another script, or being cut short.

| form | of "Дж. О'Хара" | of "National Health Service" |
|---|---|---|
| folded | dzh o'khara | national health service |
| skeleton | dj hr | ntnl hl srvk |
| acronym | | nhs |

Letters of other alphabets are written with Latin ones by tables that keep the consonants apart as
far as most transliterations do; vowels of Semitic scripts are not written and not compared.
"""

from __future__ import annotations

import hashlib
import unicodedata
from functools import lru_cache

from kbforge_plugins.models.attributes.kinds import words_of


def _table(letters: str, written: str) -> dict[str, str]:
    """How each letter is written; a comma stands between two."""
    return dict(zip(letters, written.split(","), strict=True))


_CYRILLIC = _table(
    "абвгдежзийклмнопрстуфхцчшщъыьэюяіїєґўј",
    "a,b,v,g,d,e,zh,z,i,i,k,l,m,n,o,p,r,s,t,u,f,kh,ts,ch,sh,sh,,y,,e,yu,ya,i,i,e,g,u,j",
)
_GREEK = _table("αβγδεζηθικλμνξοπρσςτυφχψω", "a,v,g,d,e,z,i,th,i,k,l,m,n,x,o,p,r,s,s,t,i,f,ch,ps,o")
_ARABIC = _table(
    "ابتثجحخدذرزسشصضطظعغفقكلمنهويةىءأإآؤئپچژگکی",
    "a,b,t,th,j,h,kh,d,dh,r,z,s,sh,s,d,t,z,,gh,f,q,k,l,m,n,h,w,y,a,a,,a,a,a,w,y,p,ch,zh,g,k,y",
)
_SYRIAC = _table("ܐܒܓܕܗܘܙܚܛܝܟܠܡܢܣܥܦܨܩܪܫܬ", "a,b,g,d,h,w,z,h,t,y,k,l,m,n,s,,p,s,q,r,sh,t")
_HEBREW = _table(
    "אבגדהוזחטיכךלמםנןסעפףצץקרשת",
    "a,b,g,d,h,w,z,h,t,y,k,k,l,m,m,n,n,s,,p,p,ts,ts,k,r,sh,t",
)
_OTHER = {"ß": "ss", "ø": "o", "đ": "d", "ł": "l", "æ": "ae", "œ": "oe", "ı": "i", "þ": "th"}
_LATIN = str.maketrans({**_CYRILLIC, **_GREEK, **_ARABIC, **_SYRIAC, **_HEBREW, **_OTHER, "ð": "d"})
_SOUNDS = (
    *(("sch", "s"), ("tch", "c"), ("ch", "h"), ("kh", "h"), ("gh", "g"), ("ph", "f")),
    *(("sh", "s"), ("th", "t"), ("dh", "d"), ("zh", "j"), ("ts", "s"), ("tz", "s"), ("ck", "k")),
    *(("qu", "k"), ("x", "ks"), ("c", "k"), ("q", "k"), ("z", "s"), ("w", "v"), ("dj", "j")),
)
_SILENT = frozenset("aeiouy'`’ʿʾ")
_SMALL = frozenset(
    (
        *("a", "an", "and", "at", "by", "for", "in", "of", "on", "the", "to"),
        *("de", "del", "der", "des", "di", "du", "e", "el", "et", "für", "i", "la", "le", "les"),
        *("u", "und", "von", "y"),
    )
)
_MOST_TOKENS = 40
_LONGEST_ACRONYM = 8


@lru_cache(maxsize=1 << 16)
def folded(value: str) -> str:
    """A normalised value in Latin letters without marks, as far as the tables go."""
    if value.isascii():
        return value
    plain = "".join(c for c in unicodedata.normalize("NFKD", value) if not unicodedata.combining(c))
    return plain.translate(_LATIN)


def tokens_of(value: str) -> list[str]:
    """The different words of a normalised value in order, a bounded number."""
    return list(dict.fromkeys(words_of(value)))[:_MOST_TOKENS]


@lru_cache(maxsize=1 << 16)
def skeleton(token: str) -> str:
    """What most spellings of a folded word have in common: its first sound and its consonants."""
    for written, sound in _SOUNDS:
        if written in token:
            token = token.replace(written, sound)
    kept = [c for c in token if c not in _SILENT]
    out = [c for place, c in enumerate(kept) if place == 0 or c != kept[place - 1]]
    return "".join(out) or token[:1]


def acronyms_of(tokens: list[str]) -> tuple[str, str]:
    """The first letters of all words, and of those that are not small; "" of a single word."""
    if not 2 <= len(tokens) <= _LONGEST_ACRONYM:
        return "", ""
    large = [token for token in tokens if token not in _SMALL]
    return "".join(t[0] for t in tokens), "".join(t[0] for t in large) if len(large) > 1 else ""


def compact(tokens: list[str]) -> str:
    """The words without what stands between them."""
    return "".join(tokens)


def trigrams_of(value: str) -> list[str]:
    """Runs of three characters of a folded value, with a space before and behind, distinct."""
    padded = f" {value} "
    return list(dict.fromkeys(padded[i : i + 3] for i in range(max(len(padded) - 2, 1))))


@lru_cache(maxsize=1 << 17)
def number_of(text: str) -> int:
    """A number that stands for a text wherever it is met; 0 for the empty text."""
    if not text:
        return 0
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, signed=True) or 1
