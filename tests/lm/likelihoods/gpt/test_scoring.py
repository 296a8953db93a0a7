"""The scorer against the definition, and the laws of its windows and batches."""

import gc
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Fragment
from kbforge_lm.likelihoods.gpt.model import LanguageModel
from kbforge_lm.likelihoods.gpt.scoring import (
    ROOM,
    Passage,
    SequenceScorer,
    Stretch,
    batches_of,
    windows_of,
)
from tests.lm.likelihoods.gpt.language_models import quickstart, random_sets, small_model
from tests.lm.likelihoods.gpt.reference import Reference
from tests.profile import examples

CPU = torch.device("cpu")
PER_TOKEN = 1e-4  # nats, fp32
PER_SET = 0.05  # nats on average, bf16


@pytest.fixture(scope="module")
def fragments():
    return quickstart()


@pytest.fixture(scope="module")
def model(fragments):
    return small_model(fragments)


def tokens_of(model: LanguageModel, sets: list[list[Fragment]]) -> list[list[int]]:
    return [model.tokenizer.encode(model.tokenizer.text(one)) for one in sets]


def reference(model: LanguageModel, sequences: list[list[int]]) -> np.ndarray:
    slow = Reference(model.gpt, model.tokenizer.table)
    return np.array([slow.score(tokens) for tokens in sequences])


@pytest.mark.slow
def test_every_sequence_scores_as_defined(fragments, model):
    sequences = tokens_of(model, random_sets(fragments, 500))
    expected = reference(model, sequences)
    lengths = np.array([len(tokens) for tokens in sequences])
    exact = SequenceScorer(model, CPU, "fp32").score(sequences)
    assert (np.abs(exact - expected) / lengths).max() < PER_TOKEN
    coarse = SequenceScorer(model, CPU, "bf16").score(sequences)
    # these weights are wilder than learned ones, and their rounding is felt more
    assert 0 < np.abs(coarse - expected).mean() / lengths.mean() < 0.02


def test_the_reference_is_about_something(fragments, model):
    """A score depends on every earlier token, in its place; else errors would not show."""
    tokens = max(tokens_of(model, random_sets(fragments, 20)), key=len)
    slow = Reference(model.gpt, model.tokenizer.table)
    whole = slow.of_tokens(tokens, slow.state([]))
    later = slow.of_tokens(tokens[1:], slow.state(tokens[:1]))
    assert np.abs(np.array(whole[1:]) - later).min() > 0
    assert np.abs(whole[-1] - later[-1]) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("budget", [1, 64, 300, 5_000])
@pytest.mark.parametrize("memory", [0, 1 << 17, 1 << 28])
def test_how_sequences_are_batched_does_not_matter(fragments, model, budget, memory):
    sequences = tokens_of(model, random_sets(fragments, 60))
    scorer = SequenceScorer(model, CPU, "fp32", budget, memory)
    scores = np.concatenate([scorer.score(sequences[:20]), scorer.score(sequences[20:])])
    one_by_one = SequenceScorer(model, CPU, "fp32")
    alone = np.array([one_by_one.score([tokens])[0] for tokens in sequences])
    assert scores == pytest.approx(alone, abs=1e-3)
    assert scores == pytest.approx(reference(model, sequences), abs=1e-2)


@pytest.mark.parametrize("context", [1, 2, 3, 16, 50])
def test_longer_than_the_context(fragments, context):
    model = small_model(fragments, context)
    sequences = tokens_of(model, [fragments[first : first + 6] for first in range(0, 60, 6)])
    assert min(map(len, sequences)) > context
    exact = SequenceScorer(model, CPU, "fp32").score(sequences)
    lengths = np.array([len(tokens) for tokens in sequences])
    assert (np.abs(exact - reference(model, sequences)) / lengths).max() < PER_TOKEN


@pytest.mark.slow
def test_hundreds_of_fragments(fragments):
    model = small_model(fragments, context=512)
    tokens = tokens_of(model, [fragments])[0]
    assert len(tokens) > 10 * 512
    exact = SequenceScorer(model, CPU, "fp32").score([tokens])
    assert abs(exact[0] - reference(model, [tokens])[0]) / len(tokens) < PER_TOKEN


def test_what_is_known_is_not_read_again(model):
    a, b, c, d = (Fragment(name, {"name": (name * 5,)}) for name in "abcd")
    one, two, three, other = tokens_of(model, [[a], [a, b], [a, b, c], [a, b, d]])
    scorer = SequenceScorer(model, CPU, "fp32", memory_bytes=1 << 28)
    together = scorer.score([three, other, one])
    assert scorer.tokens_read == len(three) + len(other) - len(two), "what both begin with once"
    assert scorer.score([two, one]).tolist()[1] == together[2]
    assert scorer.tokens_read == len(three) + len(other) - len(two), "part of a longer one"
    scorer.score(tokens_of(model, [[a, b, c, d]]))
    assert scorer.tokens_read == len(three) + 2 * (len(other) - len(two)), "only what is new"
    forgetful = SequenceScorer(model, CPU, "fp32")
    assert forgetful.score([three, other, one]).tolist() == together.tolist()
    forgetful.score([three])
    assert forgetful.tokens_read == 2 * len(three) + len(other) - len(two)


def test_the_memory_of_what_was_read_is_bounded(fragments, model):
    sequences = tokens_of(model, random_sets(fragments, 200))
    most = 4 << 20
    gc.collect()  # of what other tests left
    before = torch_bytes()
    scorer = SequenceScorer(model, CPU, "fp32", memory_bytes=most)
    for tokens in sequences:
        scorer.score([tokens])
    gc.collect()
    held = torch_bytes() - before
    assert sum(map(len, sequences)) * 2 * 2 * 64 * 4 > 2 * most, "all of it would not fit"
    assert 0.5 * most < held < 1.2 * most


def torch_bytes() -> int:
    """What the tensors that are alive occupy."""
    storages = {
        one.untyped_storage().data_ptr(): one.untyped_storage().nbytes()
        for one in gc.get_objects()
        if type(one) is torch.Tensor
    }
    return sum(storages.values())


def test_nothing_to_score(model):
    scorer = SequenceScorer(model, CPU, "fp32")
    assert scorer.score([]).shape == (0,)
    assert scorer.score([[]]).tolist() == [0.0]


def test_a_precision_is_chosen(model):
    assert SequenceScorer(model, CPU).precision in ("fp32", "bf16")
    assert SequenceScorer(model, CPU, "bf16").precision == "bf16"


@pytest.fixture(scope="module")
def texts(fragments, model):
    """Sequences of fragments of many lengths, of one token to thousands."""
    rng = np.random.default_rng(3)
    words = ["x" * int(rng.integers(1, 60)) for _ in range(40)]
    odd = [Fragment(str(i), {"name": (word,)}) for i, word in enumerate(words)]
    return tokens_of(model, [fragments[:n] for n in range(1, 90, 8)] + [odd[:n] for n in (3, 40)])


@given(data=st.data(), context=st.integers(1, 400))
@examples(150)
def test_windows(texts, model, data, context):
    """Every token is scored once, knows half a context, and is read in the right state."""
    whole = data.draw(st.sampled_from(texts))
    tokens = whole[: data.draw(st.integers(0, len(whole)))]
    table = model.tokenizer.table
    slow = Reference(model.gpt, table)
    windows = list(windows_of(7, tokens, table, context))
    assert [token for w in windows for token in list(w.tokens)[w.first :]] == tokens
    assert [state for w in windows for state in list(w.states)[w.first :]] == [
        int(state) for state in table.states(tokens)
    ]
    done = 0
    for window in windows:
        begin = done - window.first
        assert window.sequence == 7
        assert list(window.tokens) == tokens[begin : begin + len(window.tokens)]
        assert len(window.tokens) <= context
        assert begin == 0 or window.first == context // 2 or slow.fragment_begins(tokens, begin)
        assert begin == 0 or window.first >= context // 2
        fragments = {
            at - begin
            for at in range(begin + 1, begin + len(window.tokens))
            if slow.fragment_begins(tokens, at)
        }
        ends = fragments | {window.first, len(window.tokens)}
        assert list(window.ends) == sorted(ends - {0})
        done += len(window.tokens) - window.first
    assert all(len(window.tokens) == context for window in windows[:-1])
    # so the model reads each token a bounded number of times
    assert len(windows) <= max(1, 4 * len(tokens) / context)


def test_keys_tell_apart_what_is_read(texts, model):
    """Equal keys exactly where the same tokens are read from the same state."""
    read: dict[bytes, tuple[int, list[int]]] = {}
    for tokens in texts:
        for window in windows_of(0, tokens, model.tokenizer.table, 40):
            for end, key in zip(window.ends, window.keys, strict=True):
                content = (window.states[0], list(window.tokens[:end]))
                assert read.setdefault(key, content) == content
    assert len({(state, *tokens) for state, tokens in read.values()}) == len(read)


@st.composite
def stretches(draw: st.DrawFn) -> list[Stretch]:
    lengths = draw(st.lists(st.tuples(st.integers(1, 300), st.integers(0, 800)), max_size=60))
    found = []
    for n, known in lengths:
        before = Passage(None, known, 0, 0.0, torch.zeros(0)) if known else None
        found.append(Stretch(before, [0] * n, [0] * n, [], [n]))
    return found


@given(of=stretches(), budget=st.integers(1, 2_000))
@examples(200)
def test_batches(of, budget):
    """Every stretch once; no batch beyond its bounds, and none that could have taken the next."""

    def fits(batch: list[Stretch]) -> bool:
        room = max(len(one.tokens) for one in batch) + max(one.known for one in batch)
        tokens = sum(len(one.tokens) for one in batch)
        return tokens <= budget and len(batch) * room <= ROOM * budget

    batches = list(batches_of(of, budget))
    assert sorted(map(id, of)) == sorted(id(one) for batch in batches for one in batch)
    assert all(len(batch) == 1 or fits(batch) for batch in batches)
    for batch, after in pairwise(batches):
        assert max(len(one.tokens) for one in batch) <= min(len(one.tokens) for one in after)
        assert not fits([*batch, after[0]])
