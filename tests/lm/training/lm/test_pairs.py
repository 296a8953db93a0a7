"""Pairs of parts: whose they are, and that their loss is the gain's, set by set."""

import numpy as np
import pytest
import torch

from kbforge.contracts import Fragment
from kbforge_lm.likelihoods.gpt.model import GPT, GptShape
from kbforge_training.lm.batches import GrammarLoss, PairLoss, SetPairs, cut
from kbforge_training.lm.data import SetRule, by_entity
from kbforge_training.lm.train import read_recipe
from tests.lm.training import tiny
from tests.lm.training.tiny import people, read

CPU = torch.device("cpu")
VIEWS = SetRule(views=0.5, variants=0.5)


@pytest.fixture(scope="module")
def entities():
    return by_entity(people())[0]


@pytest.fixture(scope="module")
def tokenizer():
    return tiny.tokenizer()


def labels(part: list[Fragment]) -> set[str | None]:
    return {fragment.label for fragment in part}


def words(part: list[Fragment]) -> set[str]:
    return {word for f in part for name in f.names for word in name.casefold().split()}


def test_a_part_is_of_one_entity_and_the_pair_says_whether_the_other_is_too(entities):
    for pair in SetPairs(entities, VIEWS, 1).draw(0, 500):
        assert len(labels(pair.a)) == len(labels(pair.b)) == 1
        assert pair.same == (labels(pair.a) == labels(pair.b))


def test_the_parts_of_one_entity_share_no_fragment(entities):
    pairs = [p for p in SetPairs(entities, SetRule(), 1).draw(0, 500) if p.same]
    shared = [p for p in pairs if {f.id for f in p.a} & {f.id for f in p.b}]
    # but where the entity has one fragment only, whose two views they are
    assert all(len(p.a) == len(p.b) == 1 for p in shared)
    assert len(shared) < len(pairs) / 2


def test_half_are_of_one_entity_and_most_others_are_confusable(entities):
    pairs = SetPairs(entities, SetRule(), 2).draw(0, 1_000)
    others = [p for p in pairs if not p.same]
    assert 420 < len(others) < 580
    confusable = sum(bool(words(p.a) & words(p.b)) for p in others)
    assert confusable > 0.5 * len(others)
    assert confusable < len(others)


def test_a_step_has_its_own_pairs_whenever_they_are_drawn(entities):
    one, other = SetPairs(entities, VIEWS, 3), SetPairs(entities, VIEWS, 3)
    other.draw(5, 10)
    assert one.draw(7, 10) == other.draw(7, 10)
    assert one.draw(7, 10) != one.draw(8, 10)
    assert one.draw(7, 10) != SetPairs(entities, VIEWS, 4).draw(7, 10)


def test_a_single_entity_has_only_pairs_of_itself(entities):
    assert all(pair.same for pair in SetPairs(entities[:1], VIEWS, 0).draw(0, 50))


def test_gains_are_those_of_the_sets_one_by_one(entities, tokenizer):
    torch.manual_seed(0)
    gpt = GPT(GptShape(tokenizer.table.n_tokens, 32, 2, 2, 48, 96))
    loss = GrammarLoss(tokenizer.table, CPU)

    def log_marginal(fragments: list[Fragment]) -> float:
        tokens = np.array(tokenizer.encode(tokenizer.text(fragments))[:95], dtype=np.int64)
        (batch,) = cut([(tokens, 1)], 4_096)
        return -float(loss(gpt, batch).detach())

    pairs = SetPairs(entities, VIEWS, 4).draw(0, 40)
    expected = [log_marginal([*p.a, *p.b]) - log_marginal(p.a) - log_marginal(p.b) for p in pairs]
    with torch.inference_mode():
        found = PairLoss(loss, tokenizer, 5.0, 96).gains(gpt, pairs)
        value = float(PairLoss(loss, tokenizer, 5.0, 96)(gpt, pairs))
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-3)
    by_hand = [
        np.logaddexp(0, (5.0 - g) * (1 if p.same else -1))
        for g, p in zip(expected, pairs, strict=True)
    ]
    assert value == pytest.approx(np.mean(by_hand), abs=1e-4)


@pytest.mark.slow
def test_its_gradient_learns_pairs_by_heart(entities, tokenizer):
    torch.manual_seed(0)
    gpt = GPT(GptShape(tokenizer.table.n_tokens, 32, 2, 2, 48, 96))
    loss = PairLoss(GrammarLoss(tokenizer.table, CPU), tokenizer, 0.0, 96)
    pairs = SetPairs(entities, SetRule(), 5).draw(0, 16)
    optimizer = torch.optim.AdamW(gpt.parameters(), lr=1e-2)
    values = []
    for _ in range(60):
        value = loss(gpt, pairs)
        values.append(float(value.detach()))
        torch.autograd.backward(value)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    assert values[-1] < 0.3 * values[0]


def test_the_recipe_that_tunes_has_pairs(tmp_path):
    assert read_recipe("tune").pairs.weight > 0
    assert read(tmp_path).pairs.weight == 0
