"""The loss: against full softmaxes in float64, and what the grammar makes impossible."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kbforge.contracts import Fragment
from kbforge_lm.grammar.tokens import TokenTable
from kbforge_lm.likelihoods.gpt.model import GPT
from kbforge_training.lm.batches import Batch, GrammarLoss, states_of
from kbforge_training.lm.data import by_entity
from tests.lm.likelihoods.gpt.reference import Reference
from tests.lm.training.tiny import model, people, tokenizer

CPU = torch.device("cpu")
TOKENIZER = tokenizer()
TABLE = TOKENIZER.table
MODEL = model(TABLE.n_tokens)

_ENTITIES, _ = by_entity([*people(12), Fragment("x", {"né": ("語🙂", '\x00"\\')})])
ROWS = [TOKENIZER.encode(TOKENIZER.text(entity)) for entity in _ENTITIES]


def batch(rows: list[list[int]], padding: int = 0) -> Batch:
    lengths = np.array([len(row) for row in rows])
    tokens = np.zeros((len(rows), int(lengths.max()) + 1 + padding), dtype=np.int64)
    for at, row in zip(tokens, rows, strict=True):
        at[1 : len(row) + 1] = row
    return Batch(tokens, lengths, len(rows))


def nats(gpt: GPT, rows: list[list[int]], table: TokenTable = TABLE) -> float:
    with torch.inference_mode():
        return float(GrammarLoss(table, CPU)(gpt, batch(rows)))


def test_equals_full_softmaxes_in_float64():
    reference = Reference(MODEL, TABLE)
    naive = -sum(sum(reference.of_tokens(row, TABLE.first_state)) for row in ROWS)
    assert nats(MODEL, ROWS) == pytest.approx(naive, rel=1e-5)


def test_a_batch_is_the_sum_of_its_rows_whatever_the_padding():
    alone = sum(nats(MODEL, [row]) for row in ROWS)
    assert nats(MODEL, ROWS) == pytest.approx(alone, rel=1e-5)
    loss = GrammarLoss(TABLE, CPU)
    with torch.inference_mode():
        assert float(loss(MODEL, batch(ROWS, padding=9))) == pytest.approx(alone, rel=1e-5)


class Shouting(GPT):
    """A model that is sure of one token everywhere."""

    def __init__(self, gpt: GPT, token: int) -> None:
        super().__init__(gpt.shape)
        self.load_state_dict(gpt.state_dict())
        self.eval()
        self._token = token

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        logits = super().logits(hidden).clone()
        logits[..., self._token] += 1e6
        return logits


def test_illegal_tokens_have_probability_zero():
    never = 0  # begins every sequence, and is not legal anywhere
    assert not TABLE.legal[:, never].any()
    assert nats(Shouting(MODEL, never), ROWS) == nats(MODEL, ROWS)
    # the same of a token that is legal somewhere does change the loss: the test can fail
    assert nats(Shouting(MODEL, ROWS[0][0]), ROWS) > 2 * nats(MODEL, ROWS)


def test_a_forced_token_costs_nothing():
    forced = np.full((2, 4), -1, dtype=np.int16)
    forced[0, 2], forced[1, 1], forced[1, 3] = 1, 0, 0
    table = TokenTable(forced, forced >= 0, {}, 1, 0)
    gpt = model(4)
    assert nats(gpt, [[2]], table) == 0.0
    assert nats(gpt, [[2, 1]], table) == pytest.approx(nats(gpt, [[2, 1, 2]], table))
    assert nats(gpt, [[2, 1]], table) > 0.0


def test_an_impossible_text_has_probability_zero():
    closing = ROWS[0][-1]
    assert not TABLE.legal[TABLE.first_state, closing]
    assert nats(MODEL, [[closing]]) == np.inf


def test_states_are_those_of_the_table():
    tokens = batch(ROWS, padding=2).tokens
    states = states_of(TABLE, tokens)
    for row, own in zip(ROWS, states, strict=True):
        assert own[: len(row)].tolist() == TABLE.states(row).tolist()
    half = [row[len(row) // 2 :] for row in ROWS]
    first = np.array([TABLE.states(row)[len(row) // 2] for row in ROWS])
    rest = states_of(TABLE, batch(half).tokens, first)
    for row, own in zip(ROWS, rest, strict=True):
        assert (
            own[: len(row) - len(row) // 2].tolist() == TABLE.states(row)[len(row) // 2 :].tolist()
        )


def test_gradients_are_those_of_the_mean_over_all_batches():
    """Accumulating batches is as one large batch."""
    whole, parts = model(TABLE.n_tokens), model(TABLE.n_tokens)
    loss = GrammarLoss(TABLE, CPU)
    loss(whole, batch(ROWS)).backward()
    for row in ROWS:
        loss(parts, batch([row])).backward()
    for (name, p), q in zip(whole.named_parameters(), parts.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-4, msg=name)
