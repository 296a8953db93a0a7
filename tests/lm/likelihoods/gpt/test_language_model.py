"""Bundles of language models: what is written is read, and nothing else is.

Two layers refuse a changed bundle. Whatever byte changes, the manifest's hashes tell. Whoever signs
the manifest anew meets the checks of the content; that layer is tested with `signed`.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load, save

from kbforge.contracts import Fragment
from kbforge.errors import ModelError
from kbforge.models.bundle import Bundle, make_likelihood, read_bundle, write_bundle
from kbforge_lm.likelihoods.gpt.model import (
    TOKENIZER,
    WEIGHTS,
    LanguageModel,
    from_bundle,
    to_bundle,
)
from kbforge_lm.likelihoods.ngram import COUNTS_FILE, NgramCounts
from kbforge_training.fitting.loop import METRICS
from tests.lm.training.tiny import model, people, tokenizer
from tests.profile import examples

CALIBRATION = "calibration.toml"
PEOPLE = people(8)
NORM, NEXT = "blocks.1.norm_attention.weight", "blocks.1.norm_feed_forward.weight"
Table = dict[str, Any]


def language_model(grammar: str = "canonical-json", pieces: int = 270) -> LanguageModel:
    own = tokenizer(grammar, pieces)
    return LanguageModel(model(own.table.n_tokens), own, {"steps": 3})


def counts() -> bytes:
    counted = NgramCounts.empty(2, ("name",))
    counted.add(PEOPLE)
    return counted.to_bytes()


MODEL, FLAT = language_model(), language_model("flat-json")
GOOD = to_bundle(
    MODEL,
    {"fragments": len(PEOPLE), "sha256": "0" * 64},
    {COUNTS_FILE: counts(), METRICS: b'{"step": 1}\n'},
)


@pytest.fixture
def folder(tmp_path):
    write_bundle(tmp_path / "model", GOOD)
    return tmp_path / "model"


def read(folder: Path) -> LanguageModel:
    return from_bundle(read_bundle(folder), str(folder))


def signed(
    files: dict[str, bytes | None] | None = None,
    recipe: Callable[[Table], object] | None = None,
    **fields: Any,
) -> Bundle:
    """The good bundle with changes, its manifest signed anew."""
    changed = {**GOOD.files, **(files or {})}
    told: Table = json.loads(json.dumps(dict(GOOD.recipe)))
    if recipe is not None:
        recipe(told)
    kept = {name: content for name, content in changed.items() if content is not None}
    given = {"kind": GOOD.kind, "plugin": GOOD.plugin, "data": GOOD.data, **fields}
    return Bundle(files=kept, recipe=told, **given)


# --- what is written is read ----------------------------------------------------------------------


@pytest.mark.parametrize("grammar", ["canonical-json", "flat-json"])
def test_round_trip(tmp_path, grammar):
    written = language_model(grammar)
    write_bundle(tmp_path / "model", to_bundle(written, {}, {"MODEL_CARD.md": b"mine"}))
    got = read(tmp_path / "model")
    assert got.gpt.shape == written.gpt.shape
    assert got.tokenizer.to_bytes() == written.tokenizer.to_bytes()
    assert got.tokenizer.grammar == written.tokenizer.grammar
    assert got.training == {"steps": 3}
    assert not got.gpt.training
    for name, tensor in written.gpt.state_dict().items():
        found = got.gpt.state_dict()[name]
        assert found.dtype == torch.float32
        assert torch.equal(found, tensor.bfloat16().float()), name
    # writing what was read changes nothing any more
    again = to_bundle(got, {}, {"MODEL_CARD.md": b"mine"})
    assert dict(again.files) == dict(to_bundle(written, {}, {"MODEL_CARD.md": b"mine"}).files)
    assert again.recipe == to_bundle(written, {}, {}).recipe


def test_bfloat16_costs_little():
    """Eight bits of mantissa: each weight within 1/256 of itself, the loss within .1 %."""
    from tests.lm.training.lm.test_grammar_loss import ROWS, nats

    got = from_bundle(GOOD, "model").gpt
    for name, tensor in MODEL.gpt.state_dict().items():
        torch.testing.assert_close(got.state_dict()[name], tensor, rtol=1 / 256, atol=0)
    exact, rounded = nats(MODEL.gpt, ROWS), nats(got, ROWS)
    assert exact != rounded
    assert rounded == pytest.approx(exact, rel=1e-3)


def test_the_weights_are_two_bytes_each():
    n = sum(p.numel() for p in MODEL.gpt.parameters())
    assert 2 * n < len(GOOD.files[WEIGHTS]) < 2 * n + 4_000


# --- every byte is accounted for ------------------------------------------------------------------


def test_any_changed_byte_of_any_file_is_noticed(folder):
    @examples(60, database=None)
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        path = folder / data.draw(st.sampled_from(sorted(GOOD.files)))
        content = path.read_bytes()
        at = data.draw(st.integers(0, len(content) - 1))
        flipped = content[at] ^ data.draw(st.integers(1, 255))
        path.write_bytes(content[:at] + bytes([flipped]) + content[at + 1 :])
        try:
            with pytest.raises(ModelError, match=rf'"{path.name}" has SHA-256 \w+…, its manifest'):
                read(folder)
        finally:
            path.write_bytes(content)

    check()
    read(folder)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (WEIGHTS, rf'"{WEIGHTS}" has [0-9,]+ bytes, but its manifest says'),
        ("pytorch_model.bin", r'the file "pytorch_model\.bin" is not in the manifest'),
    ],
)
def test_a_pickle_in_place_of_a_file_or_beside_them_is_not_read(folder, name, says):
    (folder / name).write_bytes(bomb())
    with pytest.raises(ModelError, match=says):
        read(folder)
    assert "KBFORGE_BOMB" not in os.environ


def test_a_folder_in_place_of_a_file_is_noticed(folder):
    (folder / WEIGHTS).unlink()
    (folder / WEIGHTS).mkdir()
    with pytest.raises(ModelError, match=f'"{WEIGHTS}" is not a regular file'):
        read(folder)


# --- with the manifest signed anew ----------------------------------------------------------------


class Bomb:
    """Says so if it is ever unpickled."""

    def __reduce__(self) -> Any:
        return _go_off, ()


def _go_off() -> None:
    os.environ["KBFORGE_BOMB"] = "went off"


def bomb() -> bytes:
    return pickle.dumps(Bomb())


def test_the_bomb_works(monkeypatch):
    monkeypatch.setenv("KBFORGE_BOMB", "")
    pickle.loads(bomb())
    assert os.environ["KBFORGE_BOMB"] == "went off"


@pytest.mark.parametrize("name", [WEIGHTS, TOKENIZER, COUNTS_FILE, CALIBRATION])
def test_a_pickle_is_never_unpickled(tmp_path, name):
    write_bundle(tmp_path / "model", signed({name: bomb()}))
    with pytest.raises(Exception, match="model") as refused:
        make_likelihood(str(tmp_path / "model"))
    assert "KBFORGE_BOMB" not in os.environ
    assert "\n" not in str(refused.value)


def tensors(change: Callable[[dict[str, torch.Tensor]], object]) -> dict[str, bytes | None]:
    """The weights file after a change."""
    held = load(GOOD.files[WEIGHTS])
    change(held)
    return {WEIGHTS: save(held)}


def spoiled(value: float) -> dict[str, bytes | None]:
    return tensors(lambda t: t[NORM].__setitem__(3, value))


def header(change: Callable[[Table], object]) -> dict[str, bytes | None]:
    """The weights file with its header changed by hand."""
    content = GOOD.files[WEIGHTS]
    size = int.from_bytes(content[:8], "little")
    table: Table = json.loads(content[8 : 8 + size])
    change(table)
    changed = json.dumps(table).encode()
    changed += b" " * (-len(changed) % 8)
    return {WEIGHTS: len(changed).to_bytes(8, "little") + changed + content[8 + size :]}


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (
            tensors(lambda t: t.pop(NORM)),
            "holds 26,336 numbers, but a model of its shape has 26,368",
        ),
        (tensors(lambda t: t.update(head=torch.ones(2))), "numbers, but a model of its shape "),
        (tensors(lambda t: t.update(head=t.pop(NORM))), f"has no tensor {NORM}"),
        (tensors(lambda t: t.update(a=t.pop(NORM))), "has an unknown tensor a"),
        (tensors(lambda t: t.update({"\n": t.pop(NORM)})), r"has an unknown tensor \n"),
        (
            tensors(lambda t: t.update({NORM: t[NORM][:31].clone(), NEXT: torch.ones(33)})),
            f"{NORM} has shape (31,), but its recipe says (32,)",
        ),
        (
            tensors(lambda t: t.update({NORM: t[NORM].reshape(1, 32)})),
            f"{NORM} has shape (1, 32), but its recipe says (32,)",
        ),
        (
            tensors(lambda t: t.update({NORM: t[NORM].float()})),
            f"{NORM} is torch.float32, expected torch.bfloat16",
        ),
        (
            tensors(lambda t: t.update({NORM: t[NORM].to(torch.int16)})),
            f"{NORM} is torch.int16, expected torch.bfloat16",
        ),
        (spoiled(float("nan")), f"{NORM} holds values that are not finite"),
        (spoiled(float("inf")), f"{NORM} holds values that are not finite"),
        ({WEIGHTS: b""}, f"{WEIGHTS} is damaged: "),
        ({WEIGHTS: b"\xff" * 100}, f"{WEIGHTS} is damaged: "),
        ({WEIGHTS: GOOD.files[WEIGHTS][:-2]}, f"{WEIGHTS} is damaged: "),
        ({WEIGHTS: GOOD.files[WEIGHTS] + b"\0\0"}, f"{WEIGHTS} is damaged: "),
        (header(lambda h: h[NORM].update(shape=[1 << 40])), f"{WEIGHTS} is damaged: "),
        (header(lambda h: h[NORM].update(data_offsets=[0, 1 << 50])), f"{WEIGHTS} is damaged: "),
        (header(lambda h: h[NORM].update(dtype="PICKLE")), f"{WEIGHTS} is damaged: "),
        (header(lambda h: h.update({NORM: 3})), f"{WEIGHTS} is damaged: "),
        ({WEIGHTS: None}, f"has no {WEIGHTS}: it is not a language model"),
    ],
)
def test_other_weights_are_refused(files, says):
    refuses(signed(files), says)


def refuses(bundle: Bundle, says: str) -> None:
    with pytest.raises(ModelError) as refused:
        from_bundle(bundle, "model")
    message = str(refused.value)
    assert message.startswith("model")
    assert says in message
    assert "\n" not in message
    assert len(message) < 500


def with_one_more_piece() -> bytes:
    table: Table = json.loads(GOOD.files[TOKENIZER])
    vocabulary = table["model"]["vocab"]
    vocabulary["AdaAda"] = len(vocabulary)
    return json.dumps(table).encode()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, f"has no {TOKENIZER}: it is not a language model"),
        (b"{" * 50_000, "not a tokenizer"),
        (with_one_more_piece(), "tokens with the grammar canonical-json, but its weights are for"),
        (tokenizer(pieces=260).to_bytes(), "tokens with the grammar canonical-json"),
    ],
)
def test_another_tokenizer_is_refused(content, says):
    """What a tokenizer itself refuses is in `test_tokenizer`."""
    refuses(signed({TOKENIZER: content}), says)


SIZES = {"n_tokens", "d_model", "n_layers", "n_heads", "d_ff", "context"}


@pytest.mark.parametrize("name", sorted(SIZES))
@pytest.mark.parametrize("value", [0, -1, 1 << 62, 2.0, "2", True, None, [2]])
def test_sizes_out_of_range_are_refused(name, value):
    refuses(signed(recipe=lambda r: r["shape"].update({name: value})), f"shape: {name}: expected 1")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda r: r.pop("shape"), "should give n_tokens, d_model"),
        (lambda r: r.update(shape=3), "should give n_tokens, d_model"),
        (lambda r: r["shape"].pop("d_ff"), "should give n_tokens, d_model"),
        (lambda r: r["shape"].update(extra=1), "should give n_tokens, d_model"),
        (lambda r: r["shape"].update(n_heads=3), "32 is not a multiple of twice its 3 heads"),
        (lambda r: r["shape"].update(n_heads=32), "d_model 32 is not a multiple of twice"),
        (lambda r: r["shape"].update(n_layers=3), "numbers, but a model of its shape "),
        (lambda r: r["shape"].update(n_layers=1), "numbers, but a model of its shape "),
        (lambda r: r["shape"].update(d_ff=47), "numbers, but a model of its shape "),
        (lambda r: r["shape"].update(d_model=64), "numbers, but a model of its shape "),
        (lambda r: r["shape"].update(n_tokens=5), "its weights are for 5"),
        (lambda r: r.pop("grammar"), "should name a grammar"),
        (lambda r: r["grammar"].pop("version"), "should name a grammar"),
        (lambda r: r["grammar"].update(extra=1), "should name a grammar"),
        (lambda r: r["grammar"].update(name="xml"), 'its grammar: there is no grammar "xml"'),
        (lambda r: r["grammar"].update(name=["canonical-json"]), "its grammar: "),
        (lambda r: r["grammar"].update(version=2), "was trained on version 2 of the grammar"),
        (lambda r: r["grammar"].update(version="1"), "was trained on version '1' of the grammar"),
        (lambda r: r["grammar"].update(sha256="0" * 64), "not those it was trained on: SHA-256"),
        (lambda r: r["grammar"].update(sha256=None), "are not those it was trained on: SHA-256"),
        (
            lambda r: r.update(grammar=dict(to_bundle(FLAT, {}, {}).recipe)["grammar"]),
            "tokens with the grammar flat-json, but its weights are for",
        ),
    ],
)
def test_another_recipe_is_refused(change, says):
    refuses(signed(recipe=change), says)


def test_a_model_for_something_else_is_refused():
    refuses(signed(plugin="bigram"), "is a model for bigram, expected gpt")
    refuses(signed(kind="surrogates"), "is a model for gpt, expected gpt")


def test_absurd_sizes_take_no_memory():
    """The largest shape that is not out of range has weights of hundreds of terabytes."""
    most = {"d_model": 1 << 14, "n_layers": 1 << 10, "d_ff": 1 << 16, "context": 1 << 16}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for sizes in (most, {"d_model": 1 << 14}, {"d_ff": 1 << 16}, {"n_layers": 1 << 10}):
        changed = signed(recipe=lambda r, sizes=sizes: r["shape"].update(sizes))
        refuses(changed, "numbers, but a model of its shape ")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


def test_other_counts_are_refused(tmp_path):
    """By the model's folder; what else counts may not be is in `test_ngram`."""
    write_bundle(tmp_path / "model", signed({COUNTS_FILE: b'{"order": 2}'}))
    with pytest.raises(ModelError, match=r"model.*should hold an order and counts"):
        make_likelihood(str(tmp_path / "model"))


def test_the_good_bundle_is_a_likelihood(folder):
    """What the tests above change does work unchanged."""
    scores = make_likelihood(str(folder)).log_marginal([PEOPLE[:2], [Fragment("x", {"a": ("b",)})]])
    assert scores.shape == (2,)
    assert (scores < 0).all()
