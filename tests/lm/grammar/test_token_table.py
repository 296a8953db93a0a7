"""The table of legal tokens: equal to derivatives, normalised, and as it was recorded."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.errors import GrammarError
from kbforge_grammars import grammar as grammar_called
from kbforge_lm.grammar.skeleton import Skeleton, compile_skeleton
from kbforge_lm.grammar.tokens import START, STATES, Codec, TokenTable, compile_table
from tests.lm.grammar.pieces import PIECES, longest_pieces, reachable
from tests.lm.grammar.random_grammars import LETTERS, TREES
from tests.lm.grammar.slow import EndlessError, Place, SlowTable, Tree, rules_of
from tests.profile import examples

GOLDEN = Path(__file__).parents[2] / "golden"
NAMES = ["canonical-json", "flat-json"]
# every kind of piece: with a space and without, whole characters and parts of them, none that fits
FEW_PIECES = [
    *(b" ", b"x", b" x", b"xy", b'"', b"\n", b" x\xc3", b"\xa9", b"\xa9x", b"\xc3\xa9", b"\xe5"),
    *(b" \xf0\x9f", b"\xa7\xad", b"\x80", b"\xff", b"\xed\xa0\x80", b"  "),
]


def codec(name: str) -> Codec:
    return Codec(grammar_called(name), PIECES, longest_pieces)


def table_of(tree: Tree) -> tuple[Skeleton, TokenTable] | None:
    try:
        skeleton = compile_skeleton(rules_of(tree), "random")
    except GrammarError:
        return None
    return skeleton, compile_table(skeleton, FEW_PIECES)


def legal_slowly(slow: SlowTable, place: Place, table: TokenTable) -> dict[int, tuple[Place, bool]]:
    """token -> place after it and whether the text may end there."""
    found = {table.symbols[s]: after for s, after in slow.symbols(place).items()}
    for number, piece in enumerate(FEW_PIECES):
        target = slow.after_piece(place, piece)
        if target is not None:
            found[table.first_piece + number] = (target, False)
    return found


@given(TREES, st.randoms(use_true_random=False))
@examples(150)
def test_any_grammar_allows_the_tokens_that_derivatives_allow(tree, rng):
    made = table_of(tree)
    slow = SlowTable(tree, LETTERS)
    if made is None:
        with pytest.raises(EndlessError):
            slow.places()
        return
    _, table = made
    slow.places()
    for _ in range(3):
        place, state = slow.first, table.first_state
        for _ in range(12):
            legal = legal_slowly(slow, place, table)
            assert np.flatnonzero(table.legal[state]).tolist() == sorted(legal)
            assert {t for t in legal if table.may_end[state, t]} == {
                t for t, (_, ends) in legal.items() if ends
            }
            if not legal:
                break
            # symbols as often as pieces, or the walk stays in one string
            symbols = [t for t in legal if t < table.first_piece]
            token = rng.choice(symbols if symbols and rng.random() < 0.5 else sorted(legal))
            place, state = legal[token][0], int(table.next_state[state, token])


@given(TREES)
@examples(100)
def test_a_state_is_a_place_between_symbols(tree):
    """The table is no larger than it has to be: nodes that allow the same are one."""
    made = table_of(tree)
    if made is None:
        return
    skeleton, table = made
    assert len(skeleton.nodes) <= len(SlowTable(tree, LETTERS).places())
    n_inside = sum(node.in_string for node in skeleton.nodes)
    assert len(table.next_state) == len(skeleton.nodes) + (STATES - 1) * n_inside


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('a = STRING ("," STRING)*', 'a = (STRING ",")* STRING'),
        ('a = STRING+ "!"', 'a = STRING STRING* "!"'),
        ('a = "ab" STRING | "ac" STRING', 'a = "a" ("b" | "c") STRING'),
        ('a = ("x" STRING)?', 'a = b | b?\nb = "x" STRING'),
        ('a = (("x" STRING)?)* "."', 'a = ("x" STRING)* "."'),
    ],
)
def test_equal_languages_have_equal_tables(one, other):
    assert compile_skeleton(one, "one") == compile_skeleton(other, "other")


@pytest.mark.parametrize("name", NAMES)
def test_masked_probabilities_sum_to_one_in_every_state(name):
    table = codec(name).table
    rng = np.random.default_rng(5)
    states = reachable(table.next_state, table.first_state)
    assert len(states) == len(table.next_state)
    for scale in (0.1, 1.0, 30.0):
        logits = rng.normal(0, scale, (len(states), table.n_tokens))
        masked = np.where(table.legal[states], logits, -np.inf)
        log_p = masked - np.logaddexp.reduce(masked, axis=1, keepdims=True)
        assert np.exp(log_p).sum(axis=1) == pytest.approx(np.ones(len(states)), abs=1e-12)
        assert (np.exp(log_p)[~table.legal[states]] == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_every_state_of_ours_has_a_choice(name):
    legal = codec(name).table.legal
    assert (legal.sum(axis=1) >= 2).all()
    assert not legal[:, START].any()


@pytest.mark.parametrize("name", NAMES)
def test_probabilities_of_all_continuations_sum_to_one(name):
    """Over all sequences of three tokens, those that are legal have all the mass."""
    skeleton = compile_skeleton(grammar_called(name).rules, name)
    table = compile_table(skeleton, [b" ", b" x", b"x", b"\xc3", b"\xa9"])
    rng = np.random.default_rng(8)
    total = 0.0
    todo = [(table.first_state, 1.0, 0)]
    while todo:
        state, probability, length = todo.pop()
        if length == 4:
            total += probability
            continue
        legal = table.legal[state]
        weights = np.where(legal, np.exp(rng.normal(size=table.n_tokens)), 0.0)
        for token in np.flatnonzero(legal):
            share = float(weights[token] / weights.sum())
            todo.append((int(table.next_state[state, token]), probability * share, length + 1))
    assert total == pytest.approx(1.0, abs=1e-12)


TRACED = {
    "canonical-json": (
        '{"name":["Ada"]}',
        '{"colour":["19","北京"],"name":["Ada Lovelace"]}{"é\\n":["北x","a\U0001f9ed"]}',
    ),
    "flat-json": (
        '{"name":"Ada"}',
        '{"colour":"19","colour":"北京"}{"é\\n":"北x","é\\n":"a\U0001f9ed"}',
    ),
}


def trace(name: str) -> str:
    """For each token of some texts: the state before it and what is legal there."""
    made = codec(name)
    table = made.table
    symbol_of = {token: symbol for symbol, token in table.symbols.items()}
    lines = []
    for text in TRACED[name]:
        lines += ["", text, f"{'state':>5}  {'token':<32} {'pieces':>6}  symbols"]
        tokens = made.encode(text)
        ends = False
        for state, token in zip(table.states(tokens).tolist(), tokens, strict=True):
            legal = np.flatnonzero(table.legal[state])
            n_pieces = int((legal >= table.first_piece).sum())
            symbols = "  ".join(symbol_of[t] for t in legal.tolist() if t < table.first_piece)
            piece = PIECES[token - table.first_piece] if token >= table.first_piece else b""
            shown = symbol_of.get(token) or repr(piece)[1:]
            lines.append(f"{state:>5}  {shown:<32} {n_pieces:>6}  {symbols}".rstrip())
            ends = bool(table.may_end[state, token])
        lines.append("  end" if ends else "  no end")
    return "\n".join(lines[1:]) + "\n"


@pytest.mark.parametrize("name", NAMES)
def test_traces_are_as_recorded(name):
    """To record a change that is meant, write `trace(name)` to the file and read the difference."""
    recorded = (GOLDEN / f"trace-{name}.txt").read_text(encoding="utf-8")
    assert trace(name).splitlines() == recorded.splitlines()


def test_states_and_tokens_are_numbered_as_models_know_them():
    """A bundle's weights are rows by token: another order would be another model."""
    assert codec("canonical-json").table.symbols == {'":["': 1, '","': 2, '"],"': 3, '"]}': 4}
    assert codec("flat-json").table.symbols == {'":"': 1, '","': 2, '"}': 3}
    assert [codec(name).table.first_piece for name in NAMES] == [5, 4]


@pytest.mark.parametrize("token", [START, 1, -1, 10_000])
def test_illegal_tokens_are_named(token):
    with pytest.raises(GrammarError) as error:
        codec("canonical-json").table.states([token])
    assert str(error.value) == f"token {token} at position 0 is illegal"
