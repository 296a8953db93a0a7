"""Damages files at random, from a seed: what comes of a bad disk, or of a bad person."""

import gzip
import io
import random
import re
import zipfile
from collections.abc import Callable

HOSTILE = "\x1b[2J\x07\x7f\u009b\u202e\u2066\u200f\u061c\u2028"
_TOKENS = (
    *(b"null", b"true", b"-1", b"0", b"1e999", b"-1e999", b"NaN", b"Infinity", b"1e-400"),
    *(
        b"9" * 400,
        b"18446744073709551616",
        b"0.1e+",
        b"[]",
        b"{}",
        b'""',
        b'"\\ud800"',
        b'"\\u0000"',
    ),
    *(b"[[", b"}}", b'{"a":1,"a":2}', b"\xff\xfe", b"\x00", b"\xc0\xaf", b"\xed\xa0\x80"),
    *(b'"', b"'", b",", b";", b"\t", b"\r", b"\r\n", b"\n\n", b"=", b"[[step]]", b"\\", b"%s%n"),
    HOSTILE.encode(),
    b'"' + HOSTILE.replace("\x1b", "\\u001b").encode() + b'"',
)
_NUMBER = re.compile(rb"-?\d+(\.\d+)?")
_TEXT = re.compile(rb'"[^"\\\n]{0,80}"')

Damage = Callable[[random.Random, bytes], bytes]


def _cut(draw: random.Random, data: bytes) -> bytes:
    return data[: draw.randrange(len(data) + 1)]


def _cut_front(draw: random.Random, data: bytes) -> bytes:
    return data[draw.randrange(len(data) + 1) :]


def _flip(draw: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 8, 64))):
        if out:
            out[draw.randrange(len(out))] ^= 1 << draw.randrange(8)
    return bytes(out)


def _overwrite(draw: random.Random, data: bytes) -> bytes:
    at, length = draw.randrange(len(data) + 1), draw.choice((1, 4, 64, 1024))
    return data[:at] + draw.randbytes(length) + data[at + length :]


def _insert(draw: random.Random, data: bytes) -> bytes:
    at = draw.randrange(len(data) + 1)
    return data[:at] + draw.choice(_TOKENS) + data[at:]


def _number(draw: random.Random, data: bytes) -> bytes:
    return _swap(draw, data, _NUMBER)


def _text(draw: random.Random, data: bytes) -> bytes:
    return _swap(draw, data, _TEXT)


def _swap(draw: random.Random, data: bytes, kind: re.Pattern[bytes]) -> bytes:
    found = list(kind.finditer(data[: 1 << 16]))
    if not found:
        return _insert(draw, data)
    one = draw.choice(found)
    return data[: one.start()] + draw.choice(_TOKENS) + data[one.end() :]


def _repeat(draw: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    at = draw.randrange(len(lines))
    return b"\n".join([*lines[:at], *[lines[at]] * draw.choice((2, 3, 100)), *lines[at + 1 :]])


def _shuffle(draw: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    draw.shuffle(lines)
    return b"\n".join(lines)


def _nest(draw: random.Random, data: bytes) -> bytes:
    depth = draw.choice((10, 250, 260, 2_000, 100_000))
    opening, closing = draw.choice(((b"[", b"]"), (b'{"a":', b"}")))
    at = draw.randrange(len(data) + 1)
    return data[:at] + opening * depth + draw.choice((b"1", b"")) + closing * depth + data[at:]


def _lengthen(draw: random.Random, data: bytes) -> bytes:
    at = draw.randrange(len(data) + 1)
    return data[:at] + draw.choice((b"a", b" ", b"9", b'"', b",")) * (1 << 17) + data[at:]


def _pack(draw: random.Random, data: bytes) -> bytes:
    packed = gzip.compress(data, 1)
    return _flip(draw, packed) if draw.random() < 0.5 else _cut(draw, packed)


def _bomb(draw: random.Random, data: bytes) -> bytes:
    return gzip.compress(data + bytes([draw.choice(b"a {[\n")]) * (16 << 20), 9)


def _wide(draw: random.Random, data: bytes) -> bytes:
    encoding = draw.choice(("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"))
    return data.decode("latin-1").encode(encoding)


def _noise(draw: random.Random, data: bytes) -> bytes:
    return draw.randbytes(draw.choice((0, 1, 3, 100, 5_000)))


def _repacked(draw: random.Random, data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        chosen = draw.choice(old.namelist())
        for name in old.namelist():
            part = old.read(name)
            new.writestr(zipfile.ZipInfo(name), damaged(draw, part) if name == chosen else part)
    return out.getvalue()


_DAMAGES: tuple[tuple[Damage, int], ...] = (
    *((_cut, 10), (_cut_front, 5), (_flip, 15), (_overwrite, 10), (_insert, 15), (_number, 10)),
    *((_text, 12), (_repeat, 5), (_shuffle, 2), (_nest, 4), (_lengthen, 3), (_pack, 4)),
    *((_wide, 3), (_noise, 2)),
)
_BOMBS = 400  # one input of so many is one: unpacking takes a while


def damaged(draw: random.Random, data: bytes) -> bytes:
    """The content of a file with one damage or a few."""
    if data.startswith(b"PK") and draw.random() < 0.8:  # an archive: mostly what is packed in it
        return _repacked(draw, data)
    if draw.randrange(_BOMBS) == 0:
        return _bomb(draw, data)
    ways, weights = zip(*_DAMAGES, strict=True)
    for way in draw.choices(ways, weights, k=draw.choice((1, 1, 1, 2, 3))):
        data = way(draw, data)
    return data
