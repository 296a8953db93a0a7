"""Any Unicode has tokens and comes back; a tokenizer that was changed is refused."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Fragment
from kbforge.errors import GrammarError, ModelError
from kbforge_grammars import grammar as grammar_called
from kbforge_lm.grammar.tokens import EMPTY, WHOLE, string_state
from kbforge_lm.likelihoods.gpt.model import SetTokenizer, pieces_of
from kbforge_training.lm.train import train_bpe
from tests.lm.grammar.decoding import decoded
from tests.lm.training.toys import VALUES, bpe, tokenizer
from tests.profile import examples

GRAMMARS = ["canonical-json", "flat-json"]
VALUE = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
HOSTILE = (
    *("\0", "a\0b", " ", "  ", "\t", "\n\r", "\x1f\x7f\x80\x9f", "\u2028\u2029\u0085", "\u00a0x"),
    *('"', "\\", '\\"', '"],"', '"]}{"', " x", "x ", "a" * 5_000),
    *(
        "\U0001f9ed",
        "\U0001f469\u200d\U0001f469\u200d\U0001f467",
        "\U0001f3f3\ufe0f\u200d\U0001f308",
    ),
    *("e\u0301\u0301\u0301", "\u0301", "\ufeffx", "\ufffe\uffff", "\U0010ffff"),
    *("שלום עולם", "مرحبا", "\u202e\u200f\u2066", "北京市", "नमस्ते", "ﷺ", "İıſßẞ"),
    *("1815-12-10", "12345678901234567890", "O'Neil's"),
)


def text_of(*values: str, grammar: str = "canonical-json") -> str:
    return tokenizer(grammar).text([Fragment("1", {values[0]: values})])


def tokens_of_value(value: str) -> list[int]:
    """The tokens of one value, without the symbols around it."""
    made = tokenizer("flat-json")
    tokens = made.encode(made.text([Fragment("1", {"a": (value,)})]))
    return tokens[tokens.index(made.table.symbols['":"']) + 1 : -1]


@pytest.mark.parametrize("grammar", GRAMMARS)
@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: ascii(value[:8]))
def test_hostile_text_round_trips(grammar, value):
    text = text_of(value, grammar=grammar)
    tokens = tokenizer(grammar).encode(text)
    assert decoded(tokenizer(grammar), tokens, pieces_of(bpe())) == text


@pytest.mark.parametrize("grammar", GRAMMARS)
@given(st.lists(VALUE, min_size=1, max_size=4))
@examples(150)
def test_any_text_round_trips_with_legal_tokens(grammar, values):
    made = tokenizer(grammar)
    text = text_of(*values, grammar=grammar)
    tokens = made.encode(text)
    assert decoded(made, tokens, pieces_of(bpe())) == text
    last = made.table.states(tokens)[-1]  # it raises where a token is illegal
    assert made.table.may_end[last, tokens[-1]]


def test_every_unicode_scalar_has_tokens():
    """All of the first plane, every 13th of the others."""
    pieces = pieces_of(bpe())
    first = tokenizer("flat-json").table.first_piece
    numbers = (*range(0xD800), *range(0xE000, 0x10000), *range(0x10000, 0x110000, 13))
    scalars = [*map(chr, numbers)]
    for begin in range(0, len(scalars), 1 << 10):
        value = "".join(scalars[begin : begin + (1 << 10)])
        content = b"".join(pieces[token - first] for token in tokens_of_value(value))
        assert content.decode() == f" {value}"


@given(st.lists(VALUE, min_size=1, max_size=3), st.lists(VALUE, min_size=1, max_size=3))
def test_equal_texts_have_equal_tokens_and_others_others(one, other):
    made = tokenizer()
    fresh = SetTokenizer(made.grammar, bpe())
    a, b = text_of(*one), text_of(*other)
    assert made.encode(a) == fresh.encode(a)  # whatever was encoded before
    assert (made.encode(a) == made.encode(b)) == (a == b)


def test_a_word_has_the_same_pieces_wherever_it_stands():
    for first, second in (("Angela", "Merkel"), ("New", "York"), ("xqz", "Zürich")):
        assert tokens_of_value(f"{first} {second}") == (
            tokens_of_value(first) + tokens_of_value(second)
        )


def test_pieces_hold_two_digits_at_most_and_no_digits_beside_letters():
    numbers = [*VALUES, *(f"{year}a b{year}" for year in range(1900, 2000))]
    for piece in pieces_of(train_bpe(numbers * 3, 600)):
        text = piece.decode("utf-8", "ignore").strip()
        assert sum(c.isdigit() for c in text) <= 2
        assert not (any(c.isdigit() for c in text) and any(c.isalpha() for c in text))


def test_training_is_deterministic_and_counts_repetition():
    assert train_bpe(VALUES, 300).to_str() == train_bpe(VALUES, 300).to_str()
    assert pieces_of(train_bpe(["ab"] * 2 + ["cd"] * 3, 257))[256] in (b" c", b"cd")
    assert pieces_of(train_bpe(["ab"] * 3 + ["cd"] * 2, 257))[256] in (b" a", b"ab")
    assert len(pieces_of(bpe())) == 400


@pytest.mark.parametrize("grammar", GRAMMARS)
def test_there_is_a_choice_in_every_state(grammar):
    assert (tokenizer(grammar).table.legal.sum(axis=1) >= 2).all()


def test_pieces_are_the_bytes_that_the_library_means():
    for number, piece in enumerate(pieces_of(bpe())):
        if string_state(EMPTY, piece) == WHOLE:
            assert bpe().decode([number]) == piece.decode()


def test_a_tokenizer_survives_its_file():
    made = tokenizer()
    content = made.to_bytes()
    loaded = SetTokenizer.from_bytes(made.grammar, content)
    assert loaded.to_bytes() == content
    for value in HOSTILE:
        assert loaded.encode(text_of(value)) == made.encode(text_of(value))


def test_texts_that_are_not_the_grammars_are_refused():
    made = tokenizer()
    with pytest.raises(GrammarError, match=r'^character 6: expected ":\[", got ":"x"}$'):
        made.encode('{"name":"x"}')


def changed(change: Callable[[dict[str, Any]], Any]) -> bytes:
    content = json.loads(tokenizer().to_bytes())
    change(content)
    return json.dumps(content).encode()


def without_byte(content: dict[str, Any]) -> None:
    """Drop the piece of the byte 0xFF and close the gap."""
    vocabulary = content["model"]["vocab"]
    gone = vocabulary.pop("ÿ")
    for piece, number in vocabulary.items():
        vocabulary[piece] = number - (number > gone)


def with_gap(content: dict[str, Any]) -> None:
    vocabulary = content["model"]["vocab"]
    vocabulary[max(vocabulary, key=vocabulary.get)] += 1


def replace_last(piece: str) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        model = content["model"]
        last = max(model["vocab"], key=model["vocab"].get)
        model["vocab"][piece] = model["vocab"].pop(last)
        model["merges"] = [merge for merge in model["merges"] if "".join(merge) != last]

    return change


def renamed(old: str, new: str) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        vocabulary = content["model"]["vocab"]
        vocabulary[new] = vocabulary.pop(old)

    return change


def pre_tokenizer(content: dict[str, Any]) -> None:
    content["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = r"\s+"


FLAGS = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
ADDED = {"id": 0, "content": "!", "special": True, **FLAGS}
TRUNCATION = {"direction": "Right", "max_length": 5, "strategy": "LongestFirst", "stride": 0}
WORDS = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", r"not a tokenizer: .*"),
        (b"\xff\xfe", r"not a tokenizer: .*"),
        (changed(lambda c: c["model"].update(type="WordPiece")), r".*"),
        (changed(lambda c: c.update(pre_tokenizer=None)), r"the tokenizer's pre_tokenizer: .*"),
        (changed(lambda c: c.update(post_processor=None, decoder=None)), r".*decoder.*"),
        (changed(renamed("A", "🙂")), r".*"),
        (changed(renamed("A", "")), r".*"),
        (b"[]", r"not a tokenizer: .*"),
        (b"{}", r"not a tokenizer: .*"),
        (tokenizer().to_bytes()[:-20], r"not a tokenizer: .*"),
        (b"[" * 100_000, r"not a tokenizer: .*"),
        (changed(lambda c: c.update(model=7)), r"not a tokenizer: .*"),
        (changed(lambda c: c["model"].update(dropout=0.5)),
         r"the tokenizer's model\.dropout: expected null, got 0\.5"),
        (changed(lambda c: c["model"].update(unk_token="!")),
         r'the tokenizer\'s model\.unk_token: expected null, got "!"'),
        (changed(lambda c: c["model"].update(ignore_merges=True)),
         r"the tokenizer's model\.ignore_merges: expected false, got true"),
        (changed(lambda c: c.update(normalizer={"type": "Lowercase"})),
         r'the tokenizer\'s normalizer: expected null, got \{"type": "Lowercase"\}'),
        (changed(lambda c: c.update(added_tokens=[ADDED])),
         r'the tokenizer\'s added_tokens: expected \[\], got \[\{"id": 0, .*'),
        (changed(pre_tokenizer), r"the tokenizer's pre_tokenizer: expected \{.*, got \{.*"),
        (changed(lambda c: c.update(truncation=TRUNCATION)),
         r"the tokenizer's truncation: expected null, got \{.*"),
        (changed(lambda c: c.update(model=WORDS)),
         r"the tokenizer's model\.byte_fallback: expected false, got null"),
        (changed(without_byte), r"the tokenizer lacks pieces for 1 of the 256 bytes"),
        (changed(with_gap), r"the tokenizer's pieces are not numbered from 0 without gaps"),
        (changed(replace_last("")), r'the tokenizer is not byte-level: it has the piece ""'),
        (changed(replace_last("a b")), r'the tokenizer is not byte-level: it has the piece "a b"'),
    ],
)  # fmt: skip
def test_a_tokenizer_that_was_changed_is_refused(content, sentence):
    with pytest.raises(ModelError, match=rf"(?s)^{sentence}$") as error:
        SetTokenizer.from_bytes(grammar_called("canonical-json"), content)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


@given(st.data())
@examples(60)
def test_a_damaged_file_is_refused_or_harmless(data):
    content = bytearray(tokenizer().to_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        made = SetTokenizer.from_bytes(tokenizer().grammar, bytes(content))
    except ModelError as error:
        made, sentence = tokenizer(), str(error)
        assert "\n" not in sentence
    text = text_of(*HOSTILE[:12])
    assert decoded(made, made.encode(text), pieces_of(made.bpe)) == text
