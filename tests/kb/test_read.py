"""The reader takes exactly what assembly writes; everything else is a sentence with its place."""

import copy

import orjson
import pytest
from hypothesis import given

from kbforge.errors import BadRecord, KBForgeError
from kbforge.kb.read import entity_from_json, read_entities
from kbforge.testing import examples
from tests.assembled import assemble
from tests.kb.posteriors import plain_fragments, posteriors

GOOD = {
    "id": "e-1",
    "name": "Ada",
    "properties": {"name": [{"value": "Ada", "fragments": ["a", "b"], "count": 2}]},
    "fragments": ["a", "b"],
    "confidence": 0.9,
    "subproblem": 0,
    "reported": 0.8,
    "vector": [0.5],
    "alternatives": [{"probability": 0.1, "groups": [["a"], ["b"]]}],
}


@given(posteriors())
def test_assembled_entities_read_back(found):
    for entity in assemble(plain_fragments(found.n_fragments), found):
        record = orjson.loads(orjson.dumps(entity.to_json()))
        assert entity_from_json(record, "kb:1") == entity


def test_files_read_back(tmp_path):
    made = list(examples.entities())
    path = tmp_path / "kb.jsonl"
    path.write_bytes(b"\n".join(orjson.dumps(entity.to_json()) for entity in made))
    assert list(read_entities(str(path))) == made


DELETED = object()

WRONG = [
    (("id",), DELETED, "id: expected an entity, as kbforge cluster writes, got no such key"),
    (("properties",), DELETED, "properties: expected an entity"),
    (("fragments",), DELETED, "fragments: expected an entity"),
    (("confidence",), DELETED, "confidence: expected an entity"),
    (("reported",), 1.5, "reported: expected a probability from 0 to 1"),
    (("reported",), None, "reported: expected a probability"),
    (("calibrated_confidence",), 0.5, "expected only the keys .*, got calibrated_confidence"),
    (("subproblem",), DELETED, "subproblem: expected an entity"),
    (("extra",), 1, "expected only the keys .*, got extra"),
    (("id",), "", "id: expected a non-empty string"),
    (("id",), 7, "id: expected a non-empty string, got 7"),
    (("name",), None, "name: expected a non-empty string, got null"),
    (("properties",), [], "properties: expected an object of lists of values, got a list"),
    (("properties", "name"), [], r"properties.name: expected a non-empty list, got \[\]"),
    (("properties", "name"), "Ada", 'properties.name: expected a non-empty list, got "Ada"'),
    (("properties", "name", 0), "Ada", "properties.name: expected objects of value, fragments"),
    (("properties", "name", 0, "x"), 1, "properties.name: expected objects of value, fragments"),
    (
        ("properties", "name", 0, "value"),
        3,
        "properties.name.value: expected a non-empty string, got 3",
    ),
    (("properties", "name", 0, "count"), 3, "properties.name: expected count 2, .* got 3"),
    (("properties", "name", 0, "count"), 2.0, "properties.name: expected count 2"),
    (("properties", "name", 0, "fragments"), ["a", "z"], "expected fragments of this entity, .*z"),
    (("properties", "name", 0, "fragments"), [], "expected a non-empty list"),
    (("fragments",), [], "fragments: expected a non-empty list"),
    (("fragments",), ["a", "a"], "fragments: expected distinct fragment ids"),
    (("fragments",), ["a", 1], "fragments: expected a non-empty string, got 1"),
    (("confidence",), 1.5, "confidence: expected a probability from 0 to 1, got 1.5"),
    (("confidence",), True, "confidence: expected a probability from 0 to 1, got true"),
    (("confidence",), "high", 'confidence: expected a probability from 0 to 1, got "high"'),
    (("subproblem",), -1, "subproblem: expected a whole number from 0, got -1"),
    (("subproblem",), 0.5, "subproblem: expected a whole number from 0, got 0.5"),
    (("vector",), [], "vector: expected a non-empty list"),
    (("vector",), ["1"], 'vector: expected finite numbers, got "1"'),
    (("vector",), None, "vector: expected a non-empty list, got null"),
    (("alternatives",), {}, "alternatives: expected a list, got an empty object"),
    (("alternatives", 0), {"p": 1}, "alternatives: expected objects .*, got an object of p"),
    (("alternatives", 0, "probability"), 2, "alternatives.probability: expected a probability"),
    (("alternatives", 0, "groups"), [[]], "alternatives.groups: expected a non-empty list"),
    (("alternatives", 0, "groups"), "ab", "alternatives.groups: expected a non-empty list"),
]


@pytest.mark.parametrize(("path", "value", "message"), WRONG)
def test_wrong_fields_are_named(path, value, message):
    record = copy.deepcopy(GOOD)
    holder = record
    for step in path[:-1]:
        holder = holder[step]
    if value is DELETED:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    with pytest.raises(BadRecord, match=message) as caught:
        entity_from_json(record, "kb.jsonl:3")
    assert str(caught.value).startswith("kb.jsonl:3: ")
    assert "\n" not in str(caught.value)


def test_the_good_record_is_good():
    assert entity_from_json(copy.deepcopy(GOOD), "kb:1").to_json() == GOOD


ONE = orjson.dumps(GOOD)
OTHER = orjson.dumps({**GOOD, "id": "e-2"})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"id": "e', "1: expected a JSON object, got invalid JSON"),
        (b"[1]", "1: expected a JSON object, got a list"),
        (b"\xff\xfe", "1: expected UTF-8 text, got the byte 0xff"),
        (b'{"id": NaN}', "1: expected a JSON object, got invalid JSON"),
        (b'{"id": "\\ud800"}', "1: expected a JSON object, got invalid JSON"),
        (b"[" * 5_000, "1: expected a JSON object, got invalid JSON"),
        (ONE + b"\n" + ONE, "2: id: expected a unique id, got e-1 again"),
        (ONE + b"\n\n" + OTHER, "3: fragments: expected every fragment in one entity only, got a,"),
    ],
)
def test_wrong_files_are_refused_with_file_and_line(tmp_path, content, message):
    path = tmp_path / "kb.jsonl"
    path.write_bytes(content)
    with pytest.raises(BadRecord, match=rf"kb\.jsonl:{message}"):
        list(read_entities(str(path)))


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(KBForgeError, match=r"cannot read .*: no such file"):
        list(read_entities(str(tmp_path / "none.jsonl")))
