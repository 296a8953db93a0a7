"""Batches hold every drawn set once, within the budget, in an order that can be resumed."""

import itertools
import multiprocessing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Fragment
from kbforge.errors import UsageError
from kbforge_lm.grammar.tokens import START
from kbforge_lm.likelihoods.gpt.model import pieces_of
from kbforge_training.fitting.run_folder import Place
from kbforge_training.lm.batches import Batch, Batches, Tokens, cut
from kbforge_training.lm.data import Entity, SetRule, draw
from tests.lm.grammar.decoding import decoded
from tests.lm.training.toys import entity, tokenizer

BEGINNING = Place()
RULE = SetRule(views=0.5, variants=0.5)
ROWS = st.lists(
    st.tuples(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 5)), max_size=30
)


def entities() -> list[Entity]:
    return [entity(1 + i % 7, f"Name {i}") for i in range(40)]


def stream(seed: int = 3, budget: int = 400, context: int = 1_000) -> Batches:
    return Batches(entities(), tokenizer(), RULE, budget, context, seed, pool=12)


def take(batches: Batches, n: int, place: Place = BEGINNING) -> list[tuple[Batch, Place]]:
    return list(itertools.islice(batches.stream(place), n))


def epoch_of(batches: Batches, epoch: int) -> list[Batch]:
    """All batches of an epoch."""
    found = []
    for batch, after in batches.stream(Place(epoch)):
        found.append(batch)
        nobody_left = after.pool * 12 >= len(entities())
        if nobody_left:
            return found
    raise AssertionError("the stream ended")


def rows_of(batches: list[Batch]) -> list[tuple[int, ...]]:
    return sorted(
        tuple(row[1 : 1 + length].tolist())
        for batch in batches
        for row, length in zip(batch.tokens, batch.lengths, strict=True)
    )


def content(batch: Batch) -> tuple[object, ...]:
    return batch.tokens.tolist(), batch.lengths.tolist(), batch.fragments


@given(ROWS, st.integers(1, 60))
def test_every_row_is_in_one_batch_within_the_budget(lists, budget):
    rows: list[tuple[Tokens, int]] = [(np.array(tokens), n) for tokens, n in lists]
    batches = cut(rows, budget)
    assert rows_of(batches) == sorted(tuple(tokens) for tokens, _ in lists)
    assert sum(batch.fragments for batch in batches) == sum(n for _, n in lists)
    for batch in batches:
        assert batch.tokens.size <= budget or len(batch.tokens) == 1
        assert batch.tokens.shape[1] == batch.lengths.max() + 1
        assert (batch.tokens[:, 0] == START).all()
        padding = np.arange(batch.tokens.shape[1]) > batch.lengths[:, None]
        assert (batch.tokens[padding] == 0).all()
    # batches are of neighbours in length, and no two neighbours would fit in one
    lengths = [sorted(batch.lengths.tolist()) for batch in batches]
    for (a, b), (one, other) in zip(
        itertools.pairwise(lengths), itertools.pairwise(batches), strict=True
    ):
        assert a[-1] <= b[0]
        assert (len(one.tokens) + 1) * (b[0] + 1) > budget
        assert other.tokens.shape[1] >= one.tokens.shape[1]


def test_an_epoch_holds_each_entitys_sets_once():
    batches = Batches(
        entities(), tokenizer(), SetRule(largest=1, draws=1), 200, 1_000, seed=9, pool=12
    )
    made = tokenizer()
    options = [{tuple(made.encode(made.text([f]))) for f in members} for members in entities()]
    for epoch in range(3):
        rows = rows_of(epoch_of(batches, epoch))
        assert len(rows) == len(options)
        for members in options:
            assert len(members.intersection(rows)) == 1


def test_rows_are_the_sets_that_the_rule_draws():
    batches = epoch_of(stream(seed=5, budget=10**9), 0)
    assert len(batches) == 4  # one a pool
    order = np.random.default_rng([5, 0]).permutation(40)
    expected = []
    made = tokenizer()
    for pool in range(4):
        rng = np.random.default_rng([5, 0, pool])
        for number in order[12 * pool : 12 * (pool + 1)]:
            expected += [made.encode(made.text(s)) for s in draw(entities()[number], RULE, rng)]
    assert rows_of(batches) == sorted(map(tuple, expected))


@pytest.mark.parametrize("place", [BEGINNING, Place(1, 2, 1)])
def test_processes_draw_the_batches_that_this_one_draws(place):
    alone = take(stream(), 60, place)
    beside = Batches(entities(), tokenizer(), RULE, 400, 1_000, 3, workers=2, pool=12).stream(place)
    together = list(itertools.islice(beside, 60))
    beside.close()
    assert multiprocessing.active_children() == []
    assert [after for _, after in together] == [after for _, after in alone]
    assert [content(batch) for batch, _ in together] == [content(batch) for batch, _ in alone]


def test_without_forks_there_are_no_processes(monkeypatch):
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    with pytest.raises(UsageError, match="--workers: expected 0, as this system cannot fork"):
        Batches(entities(), tokenizer(), RULE, 400, 1_000, 3, workers=1)


def test_batches_keep_the_budget_and_epochs_differ():
    batches = stream(budget=500)
    epochs = [epoch_of(batches, number) for number in range(2)]
    for batch in itertools.chain(*epochs):
        assert batch.tokens.size <= 500 or len(batch.tokens) == 1
    assert list(map(content, epochs[0])) != list(map(content, epochs[1]))
    widths = [batch.tokens.shape[1] for batch in epochs[0]]
    assert widths != sorted(widths)


def test_the_stream_goes_on_from_any_place():
    whole = take(stream(), 120)
    places = [Place(), *(place for _, place in whole)]
    assert max(place.epoch for place in places) >= 2
    assert len(set(places)) == len(places)
    for at in (*range(20), *range(20, 119, 7)):
        rest = take(stream(), 3, places[at])[: len(whole) - at]
        expected = whole[at : at + 3]
        assert [(content(b), p) for b, p in rest] == [(content(b), p) for b, p in expected]


def test_another_seed_is_another_order():
    one, same, other = (rows_of([b for b, _ in take(stream(s), 3)]) for s in (1, 1, 2))
    assert one == same != other


def test_rows_are_cut_at_the_context():
    batches = epoch_of(stream(context=30), 0)
    assert max(batch.tokens.shape[1] for batch in batches) == 30
    whole = rows_of(epoch_of(stream(), 0))
    assert rows_of(batches) == sorted(row[:29] for row in whole)


def test_fragments_are_counted():
    made = tokenizer()
    closing = made.table.symbols['"]}']
    for batch in epoch_of(stream(), 0):
        assert batch.fragments == (batch.tokens == closing).sum()


def test_nothing_to_train_on_is_an_error():
    with pytest.raises(UsageError) as error:
        Batches([], tokenizer(), RULE, 100, 100, seed=0)
    assert str(error.value) == "expected fragments to train on, got none"


def test_hostile_text_is_batched():
    fragments = [Fragment("1", {"name": ('\0"\\\n', "\U0001f9ed")})]
    ((batch, _),) = take(Batches([fragments], tokenizer(), SetRule(), 50, 100, seed=0), 1)
    row = batch.tokens[0, 1 : 1 + int(batch.lengths[0])].tolist()
    text = decoded(tokenizer(), row, pieces_of(tokenizer().bpe))
    assert text == tokenizer().text(fragments)
