"""Recipes: strict, and every complaint is one sentence that says where."""

import re
from dataclasses import asdict
from pathlib import Path

import pytest

from kbforge.errors import UsageError
from kbforge_training.fitting.recipes import shipped
from kbforge_training.lm.data import SetRule
from kbforge_training.lm.train import read_recipe
from tests.lm.training.tiny import read, recipe_text, write_recipe


def test_those_that_ship_can_be_read():
    assert shipped() == ["h100", "rebel-8m", "small", "tiny", "tune"]
    for name in shipped():
        assert read_recipe(name).description


def test_the_papers_recipe_has_the_papers_numbers():
    recipe = read_recipe("rebel-8m")
    s, t = recipe.shape, recipe.schedule
    assert (s.d_model, s.n_layers, s.n_heads, s.d_ff) == (256, 10, 8, 768)
    assert (t.learning_rate, t.floor, t.dropout, recipe.pieces) == (3e-4, 0.1, 0.05, 1200)
    assert recipe.sets == SetRule(draws=5, largest=100, views=0.0, variants=0.0)


def test_a_file_is_read_and_goes_into_a_manifest(tmp_path):
    recipe = read(tmp_path, seed=3)
    assert recipe.schedule.seed == 3
    assert recipe.sets == SetRule(draws=3, largest=4, views=0.3)
    assert asdict(recipe)["schedule"]["tokens"] == 12_000


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"pieces": None}, 'the key "pieces" is missing'),
        ({"d_ff": None}, '[shape]: the key "d_ff" is missing'),
        ({"colour": 3}, 'unknown key "colour", expected calibrate, description, grammar'),
        ({"pieces": "1200.0"}, "pieces: expected int, got 1200.0"),
        ({"pieces": '"1200"'}, "pieces: expected int, got '1200'"),
        ({"pieces": "true"}, "pieces: expected int, got True"),
        ({"pieces": 255}, "pieces: expected 256 to 30,000, got 255"),
        ({"pieces": 30_001}, "pieces: expected 256 to 30,000, got 30001"),
        ({"grammar": 3}, "grammar: expected str, got 3"),
        ({"grammar": '"xml"'}, 'there is no grammar "xml", expected one of canonical-json'),
        ({"d_model": 0}, "d_model: expected at least 1, got 0"),
        ({"n_layers": -1}, "n_layers: expected at least 1, got -1"),
        ({"d_model": 30}, "d_model 30 is not a multiple of 2 x n_heads 2"),
        ({"context": 1}, "context: expected at least 2, got 1"),
        ({"tokens": 0}, "tokens: expected at least 1, got 0"),
        ({"tokens": "1e6"}, "tokens: expected int, got 1000000.0"),
        ({"draws": 0}, "draws: expected at least 1, got 0"),
        ({"views": 1.5}, "views: expected 0 to 1, got 1.5"),
        ({"dropout": -0.1}, "dropout: expected 0 to 1, got -0.1"),
        ({"warmup": "nan"}, "warmup: expected 0 to 1, got nan"),
        ({"floor": "inf"}, "floor: expected 0 to 1, got inf"),
        ({"learning_rate": 0}, "learning_rate: expected a number above 0, got 0"),
        ({"learning_rate": "nan"}, "learning_rate: expected a number above 0, got nan"),
        ({"clip": "inf"}, "clip: expected a number above 0, got inf"),
        ({"weight_decay": -1}, "weight_decay: expected 0 or more, got -1"),
        ({"seed": -1}, "seed: expected 0 to 1,099,511,627,776, got -1"),
    ],
)
def test_a_wrong_value_is_named(tmp_path, changes, says):
    with pytest.raises(UsageError) as refused:
        read(tmp_path, **changes)
    message = str(refused.value)
    assert says in message
    assert "tiny.toml" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "expected a table [shape]"),
        (b"shape = 3", "expected a table [shape]"),
        (recipe_text().replace("[sets]", "[set]").encode(), "expected a table [sets]"),
        (b"[shape", "expected TOML, got "),
        (b"\xff", "expected TOML, got "),
        (b"a = " + b"[" * 10_000, "expected TOML, got "),
        (b"a = " + b"9" * 5000, "expected TOML, got "),
        (b"a = [0x" + b"f" * 5000 + b"]", "a[0]: expected a whole number of 64 bits"),
        (b"#" * (1 << 20) + b"#", "expected a recipe, got more than 1,048,576 bytes"),
    ],
)
def test_a_file_that_is_no_recipe_is_named(tmp_path, content, says):
    path = tmp_path / "tiny.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError) as refused:
        read_recipe(str(path))
    assert says in str(refused.value)
    assert str(refused.value).startswith(("recipe ", f"{path}: expected a recipe"))


def test_the_page_says_how_much_each_recipe_reads():
    page = (Path(__file__).parents[4] / "docs" / "supervised.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)`.*? \| ([\d.]+) M tokens", page, re.MULTILINE)
    said = {name: round(float(millions) * 1e6) for name, millions in rows}
    assert said == {name: read_recipe(name).schedule.tokens for name in shipped()}
    assert read_recipe("tiny").calibrate < read_recipe("small").calibrate == 500


def test_an_unknown_name_lists_those_there_are(tmp_path):
    expected = 'there is no recipe "huge": expected one of h100, rebel-8m, small, tiny, tune, or a '
    with pytest.raises(UsageError, match=expected):
        read_recipe("huge")
    with pytest.raises(UsageError, match="there is no recipe"):
        read_recipe(str(tmp_path))


def test_the_largest_seed_trains(tmp_path):
    from tests.lm.training.tiny import loop

    recipe = read_recipe(write_recipe(tmp_path, seed=1 << 40, tokens=1))
    assert loop(tmp_path, recipe)[1].run().step == 1
