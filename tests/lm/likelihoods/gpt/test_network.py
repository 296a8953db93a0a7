"""The transformer: against its equations, and the properties that scoring relies on."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kbforge_lm.likelihoods.gpt.model import GPT, GptShape, rotary, rotate
from kbforge_training.lm.train import read_recipe
from tests.lm.likelihoods.gpt.reference import Reference
from tests.lm.training.tiny import model, tokenizer
from tests.profile import examples

TABLE = tokenizer().table
V = TABLE.n_tokens
GPT_ = model(V)

sequences = st.lists(st.integers(0, V - 1), min_size=2, max_size=12)


def hidden(rows: list[list[int]], gpt: GPT = GPT_) -> torch.Tensor:
    with torch.inference_mode():
        return gpt(torch.tensor(rows))


def equals_its_equations(gpt: GPT, tokens: list[int]) -> bool:
    with torch.inference_mode():
        logits = gpt.logits(hidden([tokens], gpt)[0]).numpy()
    return np.allclose(logits, Reference(gpt, TABLE).logits(tokens), rtol=0, atol=1e-4)


@examples(20)
@given(tokens=sequences)
def test_equals_its_equations(tokens):
    assert equals_its_equations(GPT_, tokens)


@pytest.mark.parametrize("sizes", [{"n_heads": 1}, {"n_heads": 8}, {"n_layers": 1, "d_ff": 7}])
def test_equals_its_equations_in_other_shapes(sizes):
    assert equals_its_equations(model(V, **sizes), [1, 5, 5, 39, 0, 2])


@examples(30)
@given(tokens=sequences, data=st.data())
def test_a_later_token_never_changes_what_comes_before(tokens, data):
    at = data.draw(st.integers(1, len(tokens) - 1))
    changed = [*tokens[:at], (tokens[at] + 1) % V, *tokens[at + 1 :]]
    before, after = hidden([tokens])[0], hidden([changed])[0]
    torch.testing.assert_close(after[:at], before[:at], rtol=0, atol=1e-6)
    assert (after[at] - before[at]).abs().max() > 1e-3


@examples(20)
@given(rows=st.lists(sequences, min_size=1, max_size=5), extra=st.integers(0, 5), data=st.data())
def test_padding_and_neighbours_do_no_harm(rows, extra, data):
    length = max(map(len, rows)) + extra
    order = data.draw(st.permutations(range(len(rows))))
    together = hidden([rows[i] + [0] * (length - len(rows[i])) for i in order])
    for row, i in zip(together, order, strict=True):
        torch.testing.assert_close(row[: len(rows[i])], hidden([rows[i]])[0], rtol=0, atol=2e-5)


def test_rotary_attention_sees_distances_only():
    torch.manual_seed(0)
    q, k = torch.randn(2, 16)
    rotation = rotary(12, 16, q)
    turned_q = rotate(q.expand(1, 1, 12, 16), rotation)[0, 0]
    turned_k = rotate(k.expand(1, 1, 12, 16), rotation)[0, 0]
    scores = turned_q @ turned_k.T
    for distance in range(-11, 12):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=0, atol=1e-4)
    assert scores[0].std() > 0.1
    torch.testing.assert_close(turned_q.norm(dim=1), q.norm().expand(12))


@pytest.mark.parametrize(("name", "count"), [("rebel-8m", 8_833_536), ("small", 2_191_680)])
def test_recipes_have_the_size_they_promise(name, count):
    s = read_recipe(name).shape
    shape = GptShape(1_205, s.d_model, s.n_layers, s.n_heads, s.d_ff, s.context)
    with torch.device("meta"):
        counted = sum(p.numel() for p in GPT(shape).parameters())
    assert counted == shape.parameters == count


def test_embeddings_are_tied_and_there_are_no_biases():
    names = dict(GPT_.named_parameters())
    assert not [name for name, p in names.items() if "bias" in name or "head" in name]
    states = torch.randn(3, 32)
    torch.testing.assert_close(GPT_.logits(states), states @ names["embedding.weight"].T)


def test_what_a_block_adds_begins_small_with_depth():
    torch.manual_seed(0)
    gpt = GPT(GptShape(V, 64, 8, 2, 96))
    for name, p in gpt.named_parameters():
        if p.dim() == 2:
            deep = 4.0 if name.endswith(("attended.weight", "down.weight")) else 1.0
            assert float(p.detach().std()) == pytest.approx(0.02 / deep, rel=0.1), name


def test_dropout_is_for_training_only():
    gpt = GPT(GptShape(V, 32, 1, 2, 48), dropout=0.5)
    tokens = torch.arange(10).reshape(1, 10)
    assert not torch.equal(gpt.train()(tokens), gpt(tokens))
    assert torch.equal(gpt.eval()(tokens), gpt(tokens))


def test_reads_in_lower_precision():
    """As on a GPU: what autocast and bfloat16 weights compute is near."""
    tokens = [[1, 5, 5, 39, 0, 2, 7, 8]]
    exact = hidden(tokens)
    with torch.autocast("cpu", torch.bfloat16):
        assert (hidden(tokens) - exact).abs().max() < 0.2
    halved = model(V).to(torch.bfloat16)
    assert (hidden(tokens, halved).float() - exact).abs().max() < 0.2
