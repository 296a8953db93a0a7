"""Limits for functions and modules, and that each module says first what is in it."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.test_imports import BESIDE, RANKS

ROOT = Path(__file__).parent.parent
FOLDERS = ("kbforge", "plugins", "training", "grammars", "examples", "docs")
MOST_LINES_OF_A_FUNCTION = 60
MOST_LINES_OF_A_MODULE = 800
MOST_PARAMETERS = 16

ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
ROOMS, ARROWS = re.findall(r"^```text\n(.*?)^```$", ARCHITECTURE, re.MULTILINE | re.DOTALL)
PACKAGES = ("kbforge", "plugins/kbforge_plugins", "examples", *BESIDE)
# packages beside the core, and their tests, that are not here
FOLDERS_BESIDE = {folder for package, (tests, _) in BESIDE.items() for folder in (package, tests)}
GONE = tuple(folder for folder in FOLDERS_BESIDE if not (ROOT / folder).is_dir())

Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules() -> list[str]:
    """The paths of all modules, from the root of the repository."""
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


@cache
def parsed(module: str) -> ast.Module:
    return ast.parse((ROOT / module).read_text(encoding="utf-8"))


def is_verb(function: Function) -> bool:
    """Whether the function is a command: its parameters are the declarations of its options."""
    decorators = map(ast.unparse, function.decorator_list)
    return any(re.match(r"(\w+_)?app\.command\(", decorator) for decorator in decorators)


def length(function: Function) -> int:
    """Lines of a function; of a verb, without what `--help` prints: options and docstring."""
    first: ast.AST = function
    if is_verb(function):
        first = function.body[1 if ast.get_docstring(function) else 0]
    assert function.end_lineno is not None
    return function.end_lineno + 1 - first.lineno  # type: ignore[attr-defined]


def functions(tree: ast.Module) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def faults(module: str) -> list[str]:
    """What is wrong with a module."""
    tree = parsed(module)
    found = []
    for function in functions(tree):
        if length(function) > MOST_LINES_OF_A_FUNCTION:
            found.append(f"{function.name} is long")
        # a verb may offer three options more
        if parameters(function) > MOST_PARAMETERS + 3 * is_verb(function):
            found.append(f"{function.name} has many parameters")
    if len((ROOT / module).read_text(encoding="utf-8").splitlines()) > MOST_LINES_OF_A_MODULE:
        found.append("more than 800 lines")
    first, *others = (ast.get_docstring(tree) or "").splitlines()[:2] or [""]
    if not first.endswith((".", "?", "!")) or others not in ([], [""]):
        found.append("its docstring does not begin with a sentence")
    return found


def test_modules_are_short_and_say_first_what_is_in_them():
    assert {module: wrong for module in modules() if (wrong := faults(module))} == {}


def parameters(function: Function) -> int:
    """How many parameters a function has, of every kind."""
    given = function.args
    return len([*given.posonlyargs, *given.args, *given.kwonlyargs])


def test_verbs_are_known_by_their_decorator():
    """Otherwise their options would count, and nothing would say why."""
    verbs = [f for m in modules() if "/cli/" in m for f in functions(parsed(m)) if is_verb(f)]
    assert {"cluster", "load", "show"} <= {verb.name for verb in verbs}


def rooms_on_the_page() -> list[str]:
    """The folders of the tree in docs/architecture.md, each of which has a line of description."""
    found, package = [], ""
    for line in ROOMS.splitlines():
        match = re.fullmatch(r"( *)(\S+)/ +\S.*", line)
        assert match, line
        package = package if match[1] else match[2]
        found.append(f"{package}/{match[2]}" if match[1] else package)
    return found


def rooms_that_exist() -> list[str]:
    parts = [
        f"{package}/{room.name}"
        for package in PACKAGES
        for room in (ROOT / package).glob("*")
        if room.is_dir() and any(path.suffix != ".pyc" for path in room.rglob("*.*"))
    ]
    return sorted([*(p for p in PACKAGES if (ROOT / p).is_dir()), "tests", "docs", *parts])


def test_every_room_has_a_line_on_the_page_of_the_architecture():
    shown = [room for room in rooms_on_the_page() if not room.startswith(GONE)]
    assert sorted(shown) == rooms_that_exist()


def test_the_page_of_the_architecture_shows_the_direction_of_imports():
    ranks: dict[int, list[str]] = {}
    for room, rank in RANKS.items():
        if room not in ("", "__main__"):
            ranks.setdefault(rank, []).append(room)
    assert ARROWS.splitlines() == [", ".join(sorted(ranks[rank])) for rank in sorted(ranks)]


def test_the_page_of_the_architecture_names_files_that_exist():
    prose = re.sub(r"^```text\n.*?^```$", "", ARCHITECTURE, flags=re.MULTILINE | re.DOTALL)
    named = [name for name in re.findall(r"`([^`\s]+)`", prose) if "/" in name or "." in name]
    assert len(named) > 30
    wrong = [name for name in named if not (ROOT / name).exists()]
    assert [name for name in wrong if not name.startswith(GONE)] == []
