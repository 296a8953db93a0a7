"""The byte 5-gram model against a slow one of dictionaries that parses and decodes by itself."""

from __future__ import annotations

import codecs
import json
import math
import random
from collections import Counter, defaultdict

import numpy as np
import pytest

from kbforge.contracts import Fragment
from kbforge.contracts.serializer import CanonicalJson
from kbforge_grammars import grammar as grammar_called
from tests.scripts import script

byte_ngram = script("byte_ngram")

KEY_END, NEXT_VALUE, NEXT_KEY, OBJECT_END = '":["', '","', '"],"', '"]}'
SYMBOLS = (KEY_END, NEXT_VALUE, NEXT_KEY, OBJECT_END)
TOKENS = (None, *SYMBOLS, *range(256))
ORDER = 5

CANONICAL = grammar_called("canonical-json")


def random_sets(seed: int, n: int) -> list[list[Fragment]]:
    rng = random.Random(seed)

    def word() -> str:
        return "".join(rng.choices('aab "é語🙂', k=rng.randint(1, 4)))

    def fragment() -> Fragment:
        keys = rng.sample(["name", "né", "a"], rng.randint(1, 3))
        return Fragment(
            "x", {key: tuple({word() for _ in range(rng.randint(1, 3))}) for key in keys}
        )

    return [[fragment() for _ in range(rng.randint(1, 3))] for _ in range(n)]


def choices(fragments: list[Fragment]) -> list[object]:
    """Symbols and bytes of a set's text, read with the json module."""
    out: list[object] = []
    text, at = CanonicalJson().serialize(fragments), 0
    while at < len(text):
        one, at = json.JSONDecoder().raw_decode(text, at)
        for number, (key, values) in enumerate(one.items()):
            out += [NEXT_KEY] * (number > 0) + [*key.encode(), KEY_END]
            for place, value in enumerate(values):
                out += [NEXT_VALUE] * (place > 0) + [*value.encode()]
        out.append(OBJECT_END)
    return out


def legal(before: list[object]) -> set[object]:
    """What may follow: bytes that UTF-8 has there; after a whole character what ends a string."""
    string: list[int] = []
    last = None
    for token in before:
        if isinstance(token, int):
            string.append(token)
        else:
            string, last = [], token
    allowed: set[object] = set()
    for byte in range(256):
        try:
            codecs.getincrementaldecoder("utf-8")().decode(bytes([*string, byte]))
            allowed.add(byte)
        except UnicodeDecodeError:
            pass
    try:
        whole = bool(bytes(string).decode())
    except UnicodeDecodeError:
        whole = False
    if whole:
        in_key = last in (None, NEXT_KEY, OBJECT_END)
        allowed |= {KEY_END} if in_key else {NEXT_VALUE, NEXT_KEY, OBJECT_END}
    return allowed


class Slow:
    """Interpolated modified Kneser-Ney by its definition."""

    def __init__(self, sets: list[list[Fragment]]) -> None:
        seen: Counter[tuple[object, ...]] = Counter()
        for fragments in sets:
            tokens = [None] * (ORDER - 1) + choices(fragments)
            for end in range(ORDER, len(tokens) + 1):
                for length in range(1, ORDER + 1):
                    seen[tuple(tokens[end - length : end])] += 1
        before: dict[tuple[object, ...], set[object]] = defaultdict(set)
        for gram in seen:
            before[gram[1:]].add(gram[0])
        self.estimated = set()
        self.a: dict[int, dict[tuple[object, ...], int]] = {}
        self.d: dict[int, list[float]] = {}
        for length in range(1, ORDER + 1):
            self.a[length] = {
                gram: n if length == ORDER or gram[0] is None else len(before[gram])
                for gram, n in seen.items()
                if len(gram) == length
            }
            self.d[length] = self.discounts(length)

    def discounts(self, length: int) -> list[float]:
        n = Counter(self.a[length].values())
        if all(n[times] for times in (1, 2, 3, 4)):
            y = n[1] / (n[1] + 2 * n[2])
            found = [times - (times + 1) * y * n[times + 1] / n[times] for times in (1, 2, 3)]
            if min(found) > 0:
                self.estimated.add(length)
                return found
        return [0.5, 0.5, 0.5]

    def row(self, context: tuple[object, ...], length: int) -> dict[object, float]:
        if length == 0:
            return dict.fromkeys(TOKENS, 1 / len(TOKENS))
        lower = self.row(context[1:], length - 1)
        followers = {gram[-1]: n for gram, n in self.a[length].items() if gram[:-1] == context}
        if not followers:
            return lower
        total = sum(followers.values())
        taken = {w: self.d[length][min(n, 3) - 1] for w, n in followers.items()}
        return {
            w: (followers.get(w, 0) - taken.get(w, 0.0) + sum(taken.values()) * lower[w]) / total
            for w in TOKENS
        }

    def log_marginal(self, fragments: list[Fragment]) -> float:
        tokens = choices(fragments)
        nats = 0.0
        for at, token in enumerate(tokens):
            row = self.row(tuple(([None] * (ORDER - 1) + tokens[:at])[1 - ORDER :]), ORDER)
            nats += math.log(row[token] / sum(row[w] for w in legal(tokens[:at])))
        return nats


@pytest.mark.parametrize(("n_sets", "estimated"), [(1, {1}), (150, {4, 5})])
def test_equals_the_definition(n_sets, estimated):
    train = random_sets(0, n_sets)
    held_out = [*random_sets(1, 2), [Fragment("x", {"zz": ("Ω",)})]]
    slow = Slow(train)
    assert slow.estimated == estimated  # both ways to a discount are compared
    model = byte_ngram.ByteNgram.trained(CANONICAL, train)
    expected = [slow.log_marginal(fragments) for fragments in held_out]
    assert model.log_marginal(held_out) == pytest.approx(expected, rel=1e-12)


def test_counting_and_scoring_by_parts_change_nothing():
    train, held_out = random_sets(0, 40), random_sets(1, 5)
    whole = byte_ngram.ByteNgram.trained(CANONICAL, train).log_marginal(held_out)
    parts = byte_ngram.ByteNgram.trained(CANONICAL, iter(train), at_once=100)
    many = parts.log_marginal(held_out * 40)  # of which some are of two parts
    assert many == pytest.approx(np.tile(whole, 40), rel=1e-14)


@pytest.mark.parametrize("grammar", ["canonical-json", "flat-json"])
def test_legal_tokens_share_all_probability(grammar):
    plugin = grammar_called(grammar)
    model = byte_ngram.ByteNgram.trained(plugin, random_sets(0, 40))
    legal_by_state = byte_ngram.ByteTexts(plugin).table.legal
    states = np.flatnonzero(legal_by_state.any(axis=1))
    n_states, vocabulary = len(states), legal_by_state.shape[1]
    contexts = np.random.default_rng(0).integers(0, vocabulary ** (ORDER - 1), n_states)
    contexts[: n_states // 2] = 0  # contexts that were seen, too
    rows = model.probabilities(contexts, states)
    assert rows.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    assert np.array_equal(rows > 0, legal_by_state[states])


def test_what_the_grammar_forces_is_no_token():
    texts = byte_ngram.ByteTexts(CANONICAL)
    tokens, _ = texts.read([Fragment("x", {"a": ("bé",)})])
    symbols = {token: symbol for symbol, token in texts.table.symbols.items()}
    read = [symbols.get(token, token - texts.table.first_piece) for token in tokens.tolist()]
    assert read == [ord("a"), KEY_END, ord("b"), *"é".encode(), OBJECT_END]


def test_no_sets_no_scores():
    model = byte_ngram.ByteNgram.trained(CANONICAL, random_sets(0, 2))
    assert model.log_marginal([]).shape == (0,)


# Pairs of one entity and of two namesakes, and how a likelihood's scores tell them apart.


entity_pairs = script("entity_pairs")


def entities(n: int, largest: int) -> list[list[Fragment]]:
    """Entities with two of five names each, in either case; entity n is called nothing else has."""
    rng = random.Random(0)
    out = []
    for number in range(n):
        names = rng.sample("vwxyz", 2)
        size = rng.randint(1, largest)
        out.append(
            [
                Fragment(f"{number}-{k}", {"name": (rng.choice([str.upper, str])(names[k % 2]),)})
                for k in range(size)
            ]
        )
    out.append([Fragment(f"{n}-{k}", {"name": ("alone",)}) for k in range(largest)])
    return out


@pytest.mark.parametrize("seed", range(20))
def test_the_area_is_the_share_of_pairs_in_the_right_order(seed):
    rng = np.random.default_rng(seed)
    scores, weights = rng.integers(0, 4, 12).astype(float), rng.integers(0, 3, 12).astype(float)
    positive = np.arange(12) < rng.integers(1, 11)
    weights[[0, -1]] = 1  # something on either side
    rows = list(zip(scores, weights, positive, strict=True))
    total = right = 0.0
    for s, w, _ in (row for row in rows if row[2]):
        for t, v, _ in (row for row in rows if not row[2]):
            total += w * v
            right += w * v * ((s > t) + (s == t) / 2)
    found = entity_pairs.weighted_auc(scores, positive, weights)
    assert found == pytest.approx(right / total)


def test_pairs_are_what_they_should_be():
    given_entities = entities(20, 12)
    label = {f.id: number for number, entity in enumerate(given_entities) for f in entity}
    names = [{f.names[0].lower() for f in entity} for entity in given_entities]
    pairs = entity_pairs.draw_pairs(given_entities, 200, seed=1)
    assert len(pairs) == 400
    assert [pair.is_positive for pair in pairs] == [True, False] * 200
    for pair in pairs:
        assert {label[f.id] for f in pair.a} == {pair.entities[0]}
        assert {label[f.id] for f in pair.b} == {pair.entities[1]}
        assert len({f.id for f in pair.a + pair.b}) == len(pair.a) + len(pair.b)
        assert names[pair.entities[0]] & names[pair.entities[1]]
    for positive, negative in zip(pairs[::2], pairs[1::2], strict=True):
        assert len(positive.a) == len(negative.a)
        assert len(positive.b) == len(negative.b)
    assert {len(pair.a) for pair in pairs} == {len(pair.b) for pair in pairs} == {1, 2, 3, 4, 5}
    different = {frozenset((ids(pair.a), ids(pair.b))) for pair in pairs}
    assert len(different) == len(pairs)
    assert any(pair.entities == (20, 20) for pair in pairs)
    assert not any(20 in pair.entities for pair in pairs[1::2])


def ids(part: list[Fragment]) -> frozenset[str]:
    return frozenset(f.id for f in part)


def test_few_entities_give_the_pairs_there_are():
    two = [[Fragment(f"{e}{k}", {"name": ("n",)}) for k in range(2)] for e in "ab"]
    pairs = entity_pairs.draw_pairs(two, 5, seed=0)
    # a0 a1 and b0 b1, with two of the four mixed ones
    assert len(pairs) == 4
    assert entity_pairs.draw_pairs([entity[:1] for entity in two], 5, seed=0) == []


def test_equal_parts_and_shared_content_are_seen():
    x, y = (Fragment(name, {"name": (name,)}) for name in "xy")
    again = Fragment("again", {"name": ("x",)})
    kinds = [
        (pair.is_equal, pair.is_overlapping)
        for pair in (
            entity_pairs.Pair([x], [again], (0, 1)),
            entity_pairs.Pair([x, y], [again], (0, 1)),
            entity_pairs.Pair([x], [y], (0, 1)),
        )
    ]
    assert kinds == [(True, True), (False, True), (False, False)]


class Squares:
    """L(C) = |C|^2 if all labels are those of one entity, else 0."""

    def log_marginal(self, clusters: list[list[Fragment]]) -> np.ndarray:
        one = [len({f.id.split("-")[0] for f in cluster}) == 1 for cluster in clusters]
        return np.array([len(c) ** 2 * same for c, same in zip(clusters, one, strict=True)], float)


def test_gains_and_their_area():
    pairs = entity_pairs.draw_pairs(entities(20, 12), 100, seed=2)
    gain, by_fragment = entity_pairs.gains(Squares(), pairs)
    for pair, g, n in zip(pairs, gain, by_fragment, strict=True):
        a, b = len(pair.a), len(pair.b)
        assert g == (2 * a * b if pair.is_positive else -(a**2) - b**2)
        assert n == ((a + b) if pair.is_positive else 0)
    perfect = entity_pairs.area(pairs, gain, seed=0)
    assert (perfect.auc, perfect.low, perfect.high) == (1, 1, 1)
    chance = entity_pairs.area(pairs, np.zeros(len(pairs)), seed=0)
    assert (chance.auc, chance.positives, chance.negatives) == (0.5, 100, 100)


def test_the_interval_of_the_area_covers_it():
    pairs = entity_pairs.draw_pairs(entities(20, 12), 100, seed=3)
    noise = np.random.default_rng(0).normal(size=len(pairs))
    found = entity_pairs.area(pairs, noise + [pair.is_positive for pair in pairs], seed=0)
    assert found.low < found.auc < found.high
    assert found.auc == pytest.approx(0.76, abs=0.07)  # of normals one deviation apart
