"""The pretrained likelihood of pairs."""

import math
import random

import numpy as np
import pytest

from kbforge.contracts import Fragment, ModelSpec
from kbforge.errors import KBForgeError, ModelError, UsageError
from kbforge.models.bundle import list_defaults
from kbforge.models.trees import Trees
from kbforge_plugins.clusterers.sequential import SplitSmc
from kbforge_plugins.likelihoods.names import Names
from kbforge_plugins.likelihoods.pairs.likelihood import Pairs, model_bytes, weight


def person(i: int, name: str, **others: str) -> Fragment:
    return Fragment(f"f{i}", {"name": (name,), **{key: (v,) for key, v in others.items()}})


def people(n: int = 30) -> list[Fragment]:
    rng = random.Random(1)
    first, last = ("Ada", "Alan", "Grace", "Kurt"), ("Lovelace", "Turing", "Hopper", "Moor")
    return [
        person(i, f"{rng.choice(first)} {rng.choice(last)}", born=str(1800 + rng.randrange(5)))
        for i in range(n)
    ]


def fitted(fragments: list[Fragment]) -> Pairs:
    model = Pairs()
    model.fit(fragments)
    return model


def gain(model: Pairs, one: list[Fragment], other: list[Fragment]) -> float:
    both, a, b = model.log_marginal([[*one, *other], one, other])
    return float(both - a - b)


def test_equal_rare_names_speak_for_one_entity_and_others_against():
    fragments = [person(k, f"word{k} name{k}") for k in range(60)]
    fragments += [person(60, "word7 name7", city="Rome")]
    model = fitted(fragments)
    assert gain(model, [fragments[7]], [fragments[60]]) > 0.5
    assert gain(model, [fragments[7]], [fragments[8]]) < -1


def test_any_order_gives_the_same_bits_also_with_fragments_never_seen():
    known, new = people(), [person(90, "Ada Lovelase", born="1801"), person(91, "A. Lovelase")]
    some = [*known[:6], *new, known[0]]
    values = set()
    for seed in range(4):
        model = fitted(known)
        order = some[:]
        random.Random(seed).shuffle(order)
        values.add(float(model.log_marginal([order])[0]))
    assert len(values) == 1


def test_an_index_taken_before_fitting_leads_to_what_was_fitted():
    model = Pairs()
    index = model.index
    assert index is not None
    fragments = [person(k, f"word{k} name{k}") for k in range(40)]
    fragments.append(person(40, "name5 word5"))
    model.fit(fragments)
    keys = [set(index.keys(f)) for f in fragments]
    assert keys[5] & keys[40]
    assert not keys[5] & keys[6]


def test_a_fragment_never_seen_is_led_to_those_like_it():
    fragments = [person(k, f"word{k} name{k}") for k in range(40)]
    model = fitted(fragments)
    new = set(model.index.keys(person(99, "word5 name5", city="Rome")))
    led = [k for k, f in enumerate(fragments) if new & set(model.index.keys(f))]
    assert 5 in led
    assert len(led) < 10


def test_what_it_forgets_it_says_again():
    known = people()
    model = fitted(known)
    new = person(999, "Zbigniew Herbst", town="Lublin")
    before = gain(model, [new], known[:1]), list(model.index.keys(new))
    for i in range(20):
        gain(model, [person(1000 + i, f"Zbigniew Herbst {i}")], [new])
    rows = model._odds.n_rows
    model.forget()
    assert model._odds.n_rows < rows
    assert (gain(model, [new], known[:1]), list(model.index.keys(new))) == before


def test_mentions_of_one_statement_weigh_less_and_less():
    """A hundred equal mentions speak ten times as loud as one, not a hundred times."""
    fragments = [*people(), person(50, "Ada Lovelace"), person(51, "Kurt Moor", born="1700")]
    model = fitted(fragments)
    one, many = (gain(model, [fragments[-2]] * n, [fragments[-1]]) for n in (1, 100))
    assert one < 0
    assert many == pytest.approx(10 * one)
    assert [weight(n) for n in (0, 1, 4, 10_000)] == [0, 256, 512, 25_600]


def test_it_says_what_each_attribute_says():
    fragments = [
        *(person(k, f"word{k} name{k}", code=f"c{k}", city="Rome") for k in range(50)),
        person(50, "word3 name3", code="c3", city="Rome"),
    ]
    said = fitted(fragments).contributions(fragments[50], [fragments[3]])
    assert set(said) == {"name", "code", "city"}
    assert said["code"] > said["city"]


def test_another_model_is_read_from_its_file_or_folder(tmp_path):
    features = Pairs().trees.features
    content = model_bytes(_constant(features, 2.0), _constant(features[:1], 3.0))
    (tmp_path / "pairs.safetensors").write_bytes(content)
    list_defaults(tmp_path)
    for named in (tmp_path, tmp_path / "pairs.safetensors"):
        model = Pairs(str(named))
        fragments = [person(0, "Ada Lovelace"), person(1, "Ada Lovelase")]
        model.fit(fragments)
        assert gain(model, fragments[:1], fragments[1:]) == 2.0
        model = Pairs(str(named), link="source")  # the trees of linked tables, of fewer features
        model.fit(fragments)
        assert gain(model, fragments[:1], fragments[1:]) == 3.0


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"nothing", "damaged"), (None, "features of this version")],
)
def test_what_is_no_pair_model_is_refused(tmp_path, content, said):
    path = tmp_path / "model"
    other = model_bytes(*[_constant(("a",), 0.0)] * 2)
    path.write_bytes(other if content is None else content)
    with pytest.raises(ModelError, match=said):
        Pairs(str(path))


def test_a_model_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(KBForgeError, match="no such file"):
        Pairs(str(tmp_path / "no"))


def _constant(features: tuple[str, ...], value: float) -> Trees:
    none = np.zeros(0, np.int32)
    return Trees(
        features,
        none,
        np.zeros(0),
        np.zeros(0, np.uint8),
        none,
        none,
        np.array([value]),
        np.array([-1], np.int32),
        np.zeros(1),
    )


# Equal names are one entity, the surer the rarer they are; all else is apart.


PEOPLE = ["Ann Lee", "ann  LEE", "Ann Lee", "Ann Smith", "Bo Smith", "Bo Lee", "Xaver Quill"]


def fragments(names: list[str]) -> list[Fragment]:
    return [Fragment(f"f{i}", {"name": (name,)}) for i, name in enumerate(names)]


def odds(likelihood: Names, name: str) -> float:
    one = Fragment("x", {"name": (name,)})
    both, alone = likelihood.log_marginal([[one, one], [one]])
    return float(both - 2 * alone)


def test_equal_names_are_grouped_and_no_others():
    held = fragments(PEOPLE)
    likelihood = Names()
    likelihood.fit(held)
    spec = ModelSpec(likelihood, likelihood.default_alpha, index=likelihood.index)
    posterior = SplitSmc().cluster(held, spec, np.random.default_rng(0))
    assert sorted(map(sorted, posterior.clusters())) == [[0, 1, 2], [3], [4], [5], [6]]


def test_rarer_names_are_surer():
    likelihood = Names()
    likelihood.fit(fragments(PEOPLE))
    assert odds(likelihood, "Xaver Quill") > odds(likelihood, "Ann Lee") > 0


def test_the_probability_can_be_given():
    likelihood = Names(together=0.9)
    likelihood.fit(fragments(PEOPLE))
    assert odds(likelihood, "Ann Lee") == pytest.approx(math.log(9))
    for wrong in (0.5, 1.0, 2.0):
        with pytest.raises(UsageError, match="together: expected a probability"):
            Names(together=wrong)


def test_parts_of_a_name_make_one_where_there_is_no_name():
    held = [
        Fragment("a", {"first_name": ("Ann",), "surname": ("Lee",)}),
        Fragment("b", {"first_name": ("ann",), "surname": ("lee",), "city": ("Lund",)}),
        Fragment("c", {"first_name": ("Bo",), "surname": ("Lee",)}),
    ]
    likelihood = Names()
    likelihood.fit(held)
    keys = [likelihood.index.keys(f) for f in held]
    assert keys[0] == keys[1] != keys[2]
