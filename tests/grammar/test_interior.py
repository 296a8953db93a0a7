"""What the inside of a string takes is a space and what Python's strict UTF-8 decoder takes."""

from __future__ import annotations

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from kbforge.grammar import interior
from tests.grammar.slow import is_beginning, is_whole

# the bytes at which RFC 3629's rules change, and their neighbours
EDGES = (
    *(0x00, 0x20, 0x7F, 0x80, 0x81, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2),
    *(0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF),
)


def check(content: bytes) -> None:
    state = interior.step(interior.OPEN, content)
    assert (state != interior.ILLEGAL) == is_beginning(content), content
    assert (state == interior.WHOLE) == is_whole(content), content


def test_all_strings_of_up_to_two_bytes() -> None:
    for length in range(3):
        for content in itertools.product(range(256), repeat=length):
            check(b" " + bytes(content))


def test_all_strings_of_up_to_four_bytes_at_the_edges() -> None:
    for content in itertools.product(EDGES, repeat=3):
        check(b" " + bytes(content))
    continuations = [byte for byte in EDGES if 0x80 <= byte <= 0xBF]
    for lead in range(0xE0, 0x100):
        for rest in itertools.product(continuations, repeat=3):
            check(b" " + bytes([lead, *rest]))
            check(b" x" + bytes([lead, *rest[:2]]))


def test_the_first_byte_is_a_space() -> None:
    for byte in range(256):
        check(bytes([byte]))
        check(bytes([byte]) + b"x")


@given(st.binary(max_size=12) | st.text().map(str.encode))
def test_random_bytes(content: bytes) -> None:
    check(b" " + content)


def test_a_cut_anywhere_makes_no_difference() -> None:
    rng = random.Random(3)
    content = " é北\U0001f9edx\0\uffff".encode()
    for _ in range(50):
        cut = rng.randint(0, len(content))
        state = interior.step(interior.step(interior.OPEN, content[:cut]), content[cut:])
        assert state == interior.step(interior.OPEN, content) == interior.WHOLE
