"""The bill of materials of a built wheel: a CycloneDX document that agrees with pyproject.toml."""

import json
import zipfile
from pathlib import Path

import jsonschema
import pytest
from packaging.requirements import Requirement

import kbforge
from kbforge.kernel.build import LIBRARY
from tests.packaging.test_metadata import PROJECT, ROOT, canonical
from tests.registry.distributions import python

pytestmark = pytest.mark.slow

NAME = PROJECT["project"]["name"]
PURL = {"type": "string", "pattern": r"^pkg:pypi/[a-z0-9-]+(@[a-z0-9.+-]+)?$"}
TEXT = {"type": "string", "minLength": 1}
COMPONENT = {
    "type": "object",
    "required": ["type", "name", "bom-ref"],
    "additionalProperties": False,
    "properties": {
        "type": {"enum": ["library", "application", "data"]},
        "bom-ref": TEXT,
        "name": TEXT,
        "version": TEXT,
        "description": TEXT,
        "scope": {"enum": ["required", "optional", "excluded"]},
        "licenses": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "license": {
                        "type": "object",
                        "properties": {"id": {"enum": ["Apache-2.0", "MIT"]}},
                        "required": ["id"],
                    }
                },
                "required": ["license"],
            },
        },
        "copyright": TEXT,
        "purl": PURL,
        "externalReferences": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"type": {"const": "vcs"}, "url": {"pattern": "^https://"}},
                "required": ["type", "url"],
            },
        },
        "properties": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": TEXT, "value": TEXT},
                "required": ["name", "value"],
            },
        },
    },
}
# the part of https://cyclonedx.org/docs/1.6/json/ that the document uses
SCHEMA = {
    "type": "object",
    "required": ["bomFormat", "specVersion", "version", "metadata", "components", "dependencies"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"const": "http://cyclonedx.org/schema/bom-1.6.schema.json"},
        "bomFormat": {"const": "CycloneDX"},
        "specVersion": {"const": "1.6"},
        "version": {"const": 1},
        "metadata": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "lifecycles": {"const": [{"phase": "build"}]},
                "component": COMPONENT,
            },
        },
        "components": {"type": "array", "items": COMPONENT, "uniqueItems": True},
        "dependencies": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["ref"],
                "properties": {"ref": TEXT, "dependsOn": {"type": "array", "uniqueItems": True}},
            },
        },
    },
}


def built(folder: Path) -> bytes:
    """The bill of a wheel that is built from the repository."""
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(folder))
    done = python("-m", "pip", "wheel", *options, str(ROOT))
    assert done.code == 0, done.err
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        (name,) = (name for name in files.namelist() if "/sboms/" in name)
        folder_name = f"{NAME.replace('-', '_')}-{kbforge.__version__}.dist-info"
        assert name == f"{folder_name}/sboms/{NAME}.cdx.json"
        return files.read(name)


@pytest.fixture(scope="module")
def bill(tmp_path_factory):
    first, again = (built(tmp_path_factory.mktemp("wheel")) for _ in range(2))
    assert first == again
    return json.loads(first)


def test_it_has_the_shape_of_the_format(bill):
    jsonschema.validate(bill, SCHEMA)
    refs = [each["bom-ref"] for each in bill["components"]]
    assert len({*refs, bill["metadata"]["component"]["bom-ref"]}) == len(refs) + 1
    named = {ref for one in bill["dependencies"] for ref in (one["ref"], *one["dependsOn"])}
    assert named <= {*refs, bill["metadata"]["component"]["bom-ref"]}


def test_it_is_of_this_version_and_lists_what_pyproject_requires(bill):
    about = bill["metadata"]["component"]
    assert (about["name"], about["version"]) == (NAME, kbforge.__version__)
    project = PROJECT["project"]
    extras = project["optional-dependencies"]
    always = {canonical(Requirement(line).name) for line in project["dependencies"]}
    lines = [line for group in extras.values() for line in group]
    sometimes = {canonical(Requirement(line).name) for line in lines} - always - {NAME}
    listed = {
        scope: {c["name"] for c in bill["components"] if c["scope"] == scope} & (always | sometimes)
        for scope in ("required", "optional")
    }
    assert listed == {"required": always, "optional": sometimes}
    (root,) = bill["dependencies"]
    assert set(root["dependsOn"]) == {f"pkg:pypi/{name}" for name in always}


def test_it_lists_what_the_notice_names_and_the_compiler(bill):
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    tables = [each for each in bill["components"] if each["type"] == "data"]
    assert len(tables) == 2
    for table in tables:
        assert f"{table['name']} {table['version']}" in notice
        assert table["externalReferences"][0]["url"] in notice
    compilers = [each for each in bill["components"] if each["scope"] == "excluded"]
    assert len(compilers) == (Path(kbforge.__file__).parent / "kernel" / LIBRARY).exists()
