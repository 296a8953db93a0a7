"""Optimizers: which parameters Muon changes, and what they remember."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from kbforge_lm.likelihoods.gpt.model import GPT, GptShape
from kbforge_training.fitting.recipes import OPTIMIZERS, make_optimizers, moments

SHAPE = GptShape(n_tokens=11, d_model=8, n_layers=2, n_heads=2, d_ff=24, context=16)


def model() -> GPT:
    torch.manual_seed(0)
    return GPT(SHAPE)


def learn(gpt: GPT, optimizers: Sequence[torch.optim.Optimizer], steps: int) -> list[float]:
    rng = np.random.default_rng(1)
    tokens = torch.from_numpy(rng.integers(11, size=(4, 10)))
    losses = []
    for _ in range(steps):
        logits = gpt.logits(gpt(tokens[:, :-1]))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        losses.append(float(loss.detach()))
        torch.autograd.backward(loss)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    return losses


def test_what_muon_does_not_orthogonalise_moves_as_under_adamw():
    muon, adamw = model(), model()
    for name, gpt in (("muon", muon), ("adamw", adamw)):
        optimizers = make_optimizers(name, gpt, 1e-3, 0.1)
        for seed in range(4):
            torch.manual_seed(seed)
            for parameter in gpt.parameters():
                parameter.grad = torch.randn_like(parameter)
            for optimizer in optimizers:
                optimizer.step()
    alike = dict(adamw.named_parameters())
    same = {
        name: torch.allclose(parameter, alike[name], atol=1e-7)
        for name, parameter in muon.named_parameters()
    }
    assert same == {name: "blocks" not in name or "norm" in name for name in same}


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_learns(name):
    gpt = model()
    losses = learn(gpt, make_optimizers(name, gpt, 1e-2, 0.0), 150)
    assert losses[-1] < 0.5 * losses[0]


def test_only_matrices_decay():
    gpt = model()
    before = {name: p.detach().clone() for name, p in gpt.named_parameters()}
    optimizers = make_optimizers("muon", gpt, 0.1, 0.5)
    for parameter in gpt.parameters():
        parameter.grad = torch.zeros_like(parameter)
    for optimizer in optimizers:
        optimizer.step()
    for name, parameter in gpt.named_parameters():
        kept = 1.0 if parameter.dim() < 2 else 0.95
        torch.testing.assert_close(parameter.detach(), kept * before[name], msg=name)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_moments_are_what_the_optimizer_remembers(name):
    gpt = model()
    optimizers = make_optimizers(name, gpt, 1e-3, 0.0)
    learn(gpt, optimizers, 1)
    for parameter, (optimizer, names) in moments(optimizers).items():
        assert set(optimizer.state[parameter]) == set(names)
    assert set(moments(optimizers)) == set(gpt.parameters())
