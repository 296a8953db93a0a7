"""The readable file of rates: what is written is read, and nothing else is."""

import gzip
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.errors import ModelError
from kbforge.testing.examples import HOSTILE_VALUES
from kbforge.texts.kinds import KINDS
from kbforge_plugins.likelihoods.attributes.urn import (
    AttributeRates,
    component_names,
    rates_from_toml,
    rates_to_toml,
)
from tests.likelihoods.attributes.toys import random_kind, random_rates
from tests.profile import examples


@given(
    seed=st.integers(0, 10**6),
    names=st.lists(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
        | st.sampled_from(HOSTILE_VALUES),
        unique=True,
        min_size=1,
        max_size=4,
    ),
)
@examples(120)
def test_what_is_written_is_read(seed, names):
    """To the last bit, whatever an attribute is called."""
    rng = random.Random(seed)
    rates = {name: random_rates(rng, random_kind(rng)) for name in names}
    assert rates_from_toml(rates_to_toml(rates), "file") == rates


@pytest.mark.parametrize("kind", KINDS)
def test_priors_are_rates(kind):
    prior = AttributeRates.prior(kind)  # type: ignore[arg-type]
    assert sum(prior.weights()) == pytest.approx(1)
    assert min(prior.weights()) > 0
    assert rates_from_toml(rates_to_toml({"a": prior}), "file") == {"a": prior}


GOOD = """format = 2

[attributes."birth place"]
kind = "category"
concentration = 3.5
discount = 0.5
[attributes."birth place".weights]
copy = 0.8
substitution = 0.1
edit = 0.05
"two edits" = 0.0
noise = 0.05
"""


def test_a_file_written_by_hand():
    rates = rates_from_toml(GOOD.encode(), "file")["birth place"]
    assert (rates.kind, rates.concentration, rates.discount) == ("category", 3.5, 0.5)
    # nothing is impossible: a weight of zero becomes a small one
    assert rates.mixture == pytest.approx(
        {"copy": 0.8, "substitution": 0.1, "edit": 0.05, "two edits": 1e-7, "noise": 0.05}, abs=1e-6
    )
    assert rates.mixture["two edits"] > 0
    assert list(rates.mixture) == list(component_names("category"))


PLACE = "attributes.birth place"
KIND = f"{PLACE}.kind: expected one of {', '.join(KINDS)}, got"
STRENGTH = f"{PLACE}.concentration: expected a number from 0.001 to 1e+06, got"
PART = "expected one of copy, substitution, edit, two edits, noise, got an unknown field"
LONG = "expected a whole number of 64 bits, got a longer one"
BAD = {
    "no format": ("format = 2\n", "", "format: expected 2, got nothing"),
    "a later format": ("format = 2", "format = 3", "format: expected 2, got 3"),
    "a format that is a truth": ("format = 2", "format = true", "format: expected 2, got True"),
    "a format with a point": ("format = 2", "format = 2.0", "format: expected 2, got 2.0"),
    "an unknown field": ("format = 2", "format = 2\nfrom = 3",
        'from: expected one of format, attributes, got an unknown field (did you mean "format"?)'),
    "no attributes":
        (GOOD, "format = 2\n", "attributes: expected a table per attribute, got nothing"),
    "an empty table of attributes":
        (GOOD, "format = 2\n[attributes]\n", "attributes: expected at least one table, got none"),
    "attributes that are no table":
        (GOOD, "format = 2\nattributes = [1]\n",
            "attributes: expected a table per attribute, got [1]"),
    "an attribute that is no table":
        (GOOD, 'format = 2\n[attributes]\n"birth place" = 1\n',
            f"{PLACE}: expected a table, got 1"),
    "an unknown kind": ('"category"', '"place"', f"{KIND} place"),
    "a kind that is a list": ('"category"', "[]", f"{KIND} []"),
    "an unknown field of an attribute": ("concentration", "strength = 1\nconcentration",
        f"{PLACE}.strength: expected one of kind, concentration, discount, weights, "
        "got an unknown field"),
    "a concentration of zero": ("3.5", "0", f"{STRENGTH} 0"),
    "a concentration that is not a number": ("3.5", "nan", f"{STRENGTH} nan"),
    "a concentration that Python cannot write out":
        ("3.5", "0x" + "f" * 5000, f"{PLACE}.concentration: {LONG}"),
    "a kind that Python cannot write out":
        ('"category"', f"[0x{'f' * 5000}]", f"{PLACE}.kind[0]: {LONG}"),
    "no concentration": ("concentration = 3.5\n", "", f"{STRENGTH} nothing"),
    "no weights": (GOOD[GOOD.index('[attributes."birth place".w') :], "",
        f"{PLACE}.weights: expected a table, got nothing"),
    "a weight missing": ("edit = 0.05\n", "",
        f"{PLACE}.weights.edit: expected a number from 0 to 1, got nothing"),
    "a weight of a feature that the kind does not have":
        ("copy =", "stem = 0.0\ncopy =", f"{PLACE}.weights.stem: {PART}"),
    "a negative weight":
        ("0.8", "-0.8", f"{PLACE}.weights.copy: expected a number from 0 to 1, got -0.8"),
    "a weight in words":
        ("0.8", '"most"', f"{PLACE}.weights.copy: expected a number from 0 to 1, got most"),
    "weights that sum to too much":
        ("0.8", "0.9", f"{PLACE}.weights: expected weights that sum to 1, got a sum of 1.1"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_one_sentence(case):
    old, new, sentence = BAD[case]
    assert GOOD.count(old) >= 1
    with pytest.raises(ModelError) as error:
        rates_from_toml(GOOD.replace(old, new, 1).encode(), "my.toml")
    assert str(error.value) == f"my.toml: {sentence}"


@pytest.mark.parametrize(
    "content",
    [
        b"\xff",
        b"format = ",
        b"a = 1\na = 2",
        b"x = " + b"[" * 5000,
        b"format = " + b"9" * 5000,
    ],
)
def test_what_is_not_toml_is_one_sentence(content):
    with pytest.raises(ModelError, match=r"my\.toml: expected TOML, got ") as error:
        rates_from_toml(content, "my.toml")
    assert len(str(error.value)) < 300


FRAGMENTS = b"\n".join(
    b'{"id":"%d","properties":{"place":["%s"],"year":["19%02d"]}}'
    % (i, [b"york", b"yorck", b"leeds"][i % 3], 10 + i % 5)
    for i in range(15)
)


def test_an_edited_copy_is_used(program, tmp_path):
    """Two files that differ in one attribute's rates cluster differently."""
    entities = {}
    for name, copy in (("strict", 0.999), ("loose", 0.2)):
        names = component_names("text")
        rest = (1 - copy) / (len(names) - 1)
        rates = AttributeRates.of("text", [copy] + [rest] * (len(names) - 1), 1e4)
        path = tmp_path / f"{name}.toml"
        path.write_bytes(rates_to_toml({"place": rates}))
        ran = program(
            "cluster", "-", "-o", tmp_path / "kb.jsonl", "--json", "--alpha", "1",
            "--set", f"likelihood.rates={path}", stdin=FRAGMENTS,
        )  # fmt: skip
        assert ran.code == 0, ran.err
        entities[name] = ran.json["log_posterior"]
    assert entities["strict"] != entities["loose"]


@pytest.mark.parametrize(
    ("name", "content", "code", "says"),
    [
        (
            "rates.toml",
            GOOD.replace("0.8", "0.9").encode(),
            1,
            f"rates.toml: {PLACE}.weights: expected weights that sum to 1, got a sum of 1.1\n",
        ),
        (
            "rates.toml.gz",
            gzip.compress(GOOD.encode())[:-9],
            1,
            "rates.toml.gz: expected a rates file, got a damaged or truncated one",
        ),
        (
            "rates.toml",
            GOOD.encode(),
            2,
            'no fragment has the attribute "birth place" of the rates file',
        ),
    ],
)
def test_a_file_that_does_not_fit_ends_the_command(program, tmp_path, name, content, code, says):
    path = tmp_path / name
    path.write_bytes(content)
    ran = program("cluster", "-", "--set", f"likelihood.rates={path}", stdin=FRAGMENTS)
    assert ran.code == code
    assert says in ran.err
