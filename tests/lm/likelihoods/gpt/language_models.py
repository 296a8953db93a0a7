"""Small language models and sets of fragments to score with them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from kbforge.contracts import Fragment
from kbforge.files.fragments import read_fragments
from kbforge.models.bundle import write_bundle
from kbforge_grammars import grammar as grammar_called
from kbforge_lm.likelihoods.gpt.model import (
    GPT,
    GptShape,
    LanguageModel,
    SetTokenizer,
    to_bundle,
)
from kbforge_training.lm.train import train_bpe

QUICKSTART = Path(__file__).parents[4] / "examples" / "quickstart" / "fragments.jsonl"

_SHARPEN = 6.0  # fresh weights predict next to nothing: mistakes would hardly show


def quickstart() -> list[Fragment]:
    return list(read_fragments(str(QUICKSTART)))


def small_model(fragments: Sequence[Fragment], context: int = 256, seed: int = 0) -> LanguageModel:
    """Random weights that read far back, in bfloat16 as bundles hold them."""
    values = [text for f in fragments for key, of in f.properties.items() for text in (key, *of)]
    tokenizer = SetTokenizer(grammar_called("canonical-json"), train_bpe(values, 400))
    torch.manual_seed(seed)
    gpt = GPT(GptShape(tokenizer.table.n_tokens, 64, 2, 4, 128, context))
    with torch.no_grad():
        for weights in gpt.parameters():
            if weights.dim() > 1:
                weights *= _SHARPEN
            else:
                weights += 0.3 * torch.randn_like(weights)
            weights.copy_(weights.bfloat16())
    return LanguageModel(gpt.eval(), tokenizer)


def write(model: LanguageModel, folder: Path, files: Mapping[str, bytes] | None = None) -> Path:
    """The folder, which now is the model's bundle."""
    write_bundle(folder, to_bundle(model, {"fragments": 0, "sha256": ""}, files or {}))
    return folder


def random_sets(fragments: Sequence[Fragment], n: int, seed: int = 0) -> list[list[Fragment]]:
    """Sets as a clusterer asks for them: mostly of one entity, with a stranger among them."""
    rng = np.random.default_rng(seed)
    entities: dict[str | None, list[Fragment]] = {}
    for fragment in fragments:
        entities.setdefault(fragment.label, []).append(fragment)
    groups = list(entities.values())
    sets = []
    for _ in range(n):
        group = groups[rng.integers(len(groups))]
        size = int(rng.integers(1, min(len(group), 8) + 1))
        chosen = [group[i] for i in rng.permutation(len(group))[:size]]
        if rng.random() < 0.5:
            chosen.append(fragments[rng.integers(len(fragments))])
        sets.append(chosen)
    return sets
