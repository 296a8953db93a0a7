"""Records by msgspec: what breaks a type is named by its field, what was expected and got."""

import pytest

from kbforge.contracts import Provenance
from kbforge.errors import BadRecord
from kbforge.files.records import convert

GOOD = {"kbforge": "1", "likelihood": "x", "alpha": 1, "seed": 0}
KEYS = "an object of kbforge, likelihood, alpha, seed, model, choices, options, size_exponent"


def test_a_record_reads_back():
    made = convert({**GOOD, "choices": {"particles": 20, "x": True}}, Provenance, "f:1", "made")
    assert made == Provenance("1", "x", 1.0, 0, choices={"particles": 20, "x": True})
    assert convert(made.to_json(), Provenance, "f:1") == made
    assert convert(GOOD, Provenance, "f:1").to_json() == GOOD


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], f"made: expected {KEYS}, got a list"),
        ({**GOOD, "x": 1}, f"made: expected {KEYS}, got an object of kbforge, likelihood"),
        ({**GOOD, "alpha": 0}, "made.alpha: expected a number above 0, got 0"),
        ({**GOOD, "alpha": True}, "made.alpha: expected a number above 0, got true"),
        ({**GOOD, "seed": -1}, "made.seed: expected a whole number from 0, got -1"),
        ({**GOOD, "model": 3}, "made.model: expected a string, got 3"),
        ({**GOOD, "choices": []}, "made.choices: expected an object, got a list"),
        ({**GOOD, "choices": {"a": [1]}}, "made.choices.a: expected a string or a number, got a"),
        ({**GOOD, "options": {"k": 3}}, "made.options.k: expected an object, got 3"),
        ({**GOOD, "options": {"k": {"o": None}}}, "made.options.k.o: expected a string or a"),
    ],
)
def test_the_innermost_field_is_named(value, said):
    with pytest.raises(BadRecord) as error:
        convert(value, Provenance, "f:1", "made")
    assert str(error.value).startswith(f"f:1: {said}")
