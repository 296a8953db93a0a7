"""The direction of imports, read from the syntax trees.

    contracts <- {registry, files, numerics, evaluation}
              <- {models, clustering, texts} <- indexes <- {fit, kb, store} <- jobs
              <- pictures <- cli

Plugins import the library up to `kb`, but no store. The *core* is the library and its plugins.
Other packages lie beside it (`BESIDE`) and import it; only their own tests import them.
Without their folders and their lines in pyproject.toml, KBForge installs and passes its tests. A
module in no known room fails here, so that nobody opens a room without saying so.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAVY = {
    *("torch", "safetensors", "tokenizers", "transformers"),
    *("datasets", "pyarrow", "arro3", "pandas", "polars", "matplotlib", "PIL", "lightgbm"),
    *("followthemoney", "rdflib", "sklearn", "h5py", "pyspark"),
}
# these are the neural models, and Spark: whoever imports one of them has asked for it
NEURAL = (
    "kbforge_training.",
    "kbforge_lm.likelihoods.gpt",
    *(f"kbforge_lab.{name}.diffusion" for name in ("likelihoods", "training")),
    "kbforge_lab.training.defaults",
    "kbforge_spark.",
)
TEST_ONLY = {"pytest", "hypothesis", "_pytest"}
LIGHT_ROOMS = {"", "cli", "errors", "interrupts", "registry", "version"}
LIGHT = {"typer", "kbforge", *sys.stdlib_module_names}

LOOSE = {"errors", "interrupts", "version"}
RANKS = {
    room: rank
    for rank, rooms in enumerate(
        [
            {"", "contracts", *LOOSE},
            {"registry", "files", "numerics", "kernel", "evaluation"},
            {"models", "clustering", "texts"},
            {"indexes"},
            {"fit", "kb", "store"},
            {"jobs"},
            {"pictures", "datasets"},
            {"cli", "testing"},
            {"__main__"},
        ]
    )
    for room in rooms
}
# the last rank that a plugin may import; the test kit is for tests
FOR_PLUGINS = RANKS["kb"]
PLUGIN_ROOMS = {
    *("sources", "models", "likelihoods", "clusterers", "calibrators"),
    "exporters",
}


@dataclass(frozen=True)
class Import:
    """One import statement: who, whom, and whether it runs when the module is imported."""

    module: str
    target: str
    line: int
    at_import_time: bool

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.target}"


def imports_below(folder: str) -> list[Import]:
    """All imports of a package's modules, type-checking ones left out."""
    found: list[Import] = []
    package = ROOT / folder
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        found += _imports(ast.parse(path.read_text(encoding="utf-8")), name, top=True)
    assert found
    return found


def _imports(node: ast.AST, module: str, top: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from _imports(other, module, top)
        elif isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(module, alias.name, child.lineno, top)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"{module}:{child.lineno}: a relative import"
            for alias in child.names:
                # `from kbforge import registry` names a module, too
                yield Import(module, f"{child.module}.{alias.name}", child.lineno, top)
        else:
            in_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _imports(child, module, top and not in_function)


def room(module: str) -> str:
    """The part of the library that a module belongs to: "cluster" for kbforge.clustering.state."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def target_room(target: str) -> str:
    name = room(target)
    known = (ROOT / "kbforge" / name).is_dir() or (ROOT / "kbforge" / f"{name}.py").is_file()
    return name if known else ""  # `from kbforge import __version__`


LIBRARY = imports_below("kbforge")
PLUGINS = imports_below("plugins/kbforge_plugins")
CORE = [*LIBRARY, *PLUGINS]
# each package beside the core, its tests, and the packages beside the core that it imports
BESIDE = {
    "plugins/kbforge_graphs": ("tests/graphs", ()),
    "plugins/kbforge_lm": ("tests/lm", ("kbforge_grammars",)),
    "grammars/kbforge_grammars": ("tests/lm", ()),
    "training/kbforge_training": ("tests/lm", ("kbforge_lm", "kbforge_grammars")),
    "plugins/kbforge_serve": ("tests/serve", ()),
    "plugins/kbforge_spark": ("tests/spark", ()),
    "plugins/kbforge_lab": ("tests/lab", ("kbforge_graphs", "kbforge_lm", "kbforge_training")),
}
OF_BESIDE = {Path(f).name: imports_below(f) for f in BESIDE if (ROOT / f).is_dir()}
# kbforge_graphs has a verb and its use case, which are no plugins
MORE_PLUGINS = [
    i
    for name in ("kbforge_graphs", "kbforge_lm")
    for i in OF_BESIDE.get(name, [])
    if i.module.split(".")[1:2] not in (["cli"], ["resolve"])
]
EVERYTHING = [*CORE, *(i for items in OF_BESIDE.values() for i in items)]


def is_verb(item: Import) -> bool:
    """Whether the importing module belongs to the command line."""
    return item.module.split(".")[1:2] == ["cli"]


def is_neural(item: Import) -> bool:
    """Whether the importing module belongs to a neural model."""
    return item.module.startswith(NEURAL) and not is_verb(item)


def module_of(target: str, modules: set[str]) -> str:
    """The module that an import of `target` runs: kbforge.errors for kbforge.errors.UsageError."""
    return target if target in modules else target.rpartition(".")[0]


def package(item: Import) -> str:
    return item.target.split(".")[0]


def test_every_module_is_in_a_known_room():
    assert {"", *(room(i.module) for i in LIBRARY), *LOOSE} == RANKS.keys()
    assert len(RANKS.keys() - LOOSE - {""}) <= 20
    assert len(LOOSE) <= 3
    assert {room(i.module) for i in PLUGINS} <= PLUGIN_ROOMS


def of(items: list[Import], *packages: str) -> list[Import]:
    """The imports of these packages."""
    return [i for i in items if package(i) in packages]


HOUSE = of(LIBRARY, "kbforge")
FORBIDDEN: dict[str, list[Import]] = {
    "the library imports from left to right": [
        i for i in HOUSE if RANKS[target_room(i.target)] > RANKS[room(i.module)]
    ],
    # the root names what users import; a room takes the version from its leaf
    "no arrow runs back to the root": [
        i for i in LIBRARY if i.target in ("kbforge", "kbforge.__version__")
    ],
    "plugins import what is below a use case": [
        i
        for i in of([*PLUGINS, *MORE_PLUGINS], "kbforge")
        if RANKS[target_room(i.target)] > FOR_PLUGINS or target_room(i.target) == "store"
    ],
    "contracts stand alone": [
        i
        for i in HOUSE
        if room(i.module) == "contracts"
        and target_room(i.target) not in {"contracts", "errors", ""}
    ],
    "nobody imports the command line but itself": [
        i
        for i in EVERYTHING
        if i.target.startswith("kbforge.cli") and not is_verb(i) and i.module != "kbforge.__main__"
    ],
    "the library reaches plugins only through the registry": of(LIBRARY, "kbforge_plugins"),
    # the help page imports every verb, and none of them imports the pipelines before it runs
    "verbs are light to import": [
        i
        for i in EVERYTHING
        if is_verb(i)
        and i.module != "kbforge.cli.recipe"
        and i.at_import_time
        and (
            package(i) not in LIGHT
            or (package(i) == "kbforge" and room(i.target) not in LIGHT_ROOMS)
        )
        and i.target.split(".")[1:2] != ["cli"]
    ],
    "test libraries stay in the test kit": [
        i for i in of(EVERYTHING, *TEST_ONLY) if room(i.module) != "testing"
    ],
    "nothing unpickles or evaluates": of(
        EVERYTHING, "pickle", "cPickle", "dill", "shelve", "marshal", "joblib"
    ),
}


@pytest.mark.parametrize("rule", FORBIDDEN)
def test_rules_of_imports(rule):
    assert list(map(str, FORBIDDEN[rule])) == []


def beside(target: str) -> str:
    """The package beside the core that is imported, or whose tests are; else nothing."""
    for folder, (tests, _) in BESIDE.items():
        name = Path(folder).name
        if target.split(".")[0] == name or target.startswith(tests.replace("/", ".") + "."):
            return name
    return ""


def test_packages_beside_the_core_are_imported_only_by_those_that_say_so():
    of_tests = [i for i in imports_below("tests") if not beside(i.module)]
    assert [str(i) for i in [*CORE, *of_tests] if beside(i.target)] == []
    for folder, (_, others) in BESIDE.items():
        name = Path(folder).name
        allowed = {"", name, *others}
        assert [str(i) for i in OF_BESIDE.get(name, []) if beside(i.target) not in allowed] == []


@pytest.mark.parametrize(
    "gone", [["kbforge_lab"], [Path(folder).name for folder in BESIDE]], ids=["lab", "all"]
)
def test_lines_of_pyproject_go_with_their_package(gone):
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    rest = "\n".join(line for line in lines if not any(name in line for name in gone))
    whole, without = (tomllib.loads(text) for text in ("\n".join(lines), rest))
    for tool in ("hatch", "mypy"):
        assert without["tool"][tool].keys() == whole["tool"][tool].keys()
    entries = {
        (kind, name): target
        for kind, members in without["project"]["entry-points"].items()
        for name, target in members.items()
    }
    modules = {i.module for i in EVERYTHING if i.module.split(".")[0] not in gone}
    assert [e for e in entries.values() if e.split(":")[0] not in modules] == []


def test_rooms_do_not_import_each_other_in_circles():
    edges: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for i in of(EVERYTHING, *(i.module.split(".")[0] for i in EVERYTHING)):
        here, there = (i.module.split(".")[0], room(i.module)), (package(i), room(i.target))
        if package(i) == "kbforge":
            there = ("kbforge", target_room(i.target))
        if here != there:
            edges.setdefault(here, set()).add(there)
    assert tuple(TopologicalSorter(edges).static_order())  # a CycleError names the circle


def test_heavy_libraries_are_imported_in_functions():
    """Whatever is heavy by what it imports, itself or through others, is asked for."""
    modules = {i.module for i in EVERYTHING}
    at_import_time = [i for i in EVERYTHING if i.at_import_time]
    heavy: set[str] = set()
    while found := {
        i.module
        for i in at_import_time
        if i.module not in heavy and (package(i) in HEAVY or module_of(i.target, modules) in heavy)
    }:
        heavy |= found
    assert "kbforge_lm" not in OF_BESIDE or "kbforge_lm.likelihoods.gpt.model" in heavy
    wrong = [str(i) for i in at_import_time if i.module in heavy and not is_neural(i)]
    assert wrong == []
