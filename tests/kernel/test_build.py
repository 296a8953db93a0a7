"""How the kernel is built, found and refused; real compilers, real libraries."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from ctypes import CDLL
from pathlib import Path

import pytest

from kbforge.kernel import binding, build
from kbforge.kernel.interface import read_prototypes
from tests.registry.distributions import kbforge

ROOT = Path(__file__).parents[2]
needs_compiler = pytest.mark.skipif(
    build.find_compiler() is None, reason="there is no C++ compiler"
)


def without_compilers(folder: Path) -> dict[str, str]:
    """An environment in which no compiler is found."""
    env = {key: value for key, value in os.environ.items() if key not in ("CXX", build.SWITCH)}
    return {**env, "PATH": str(folder)}


def asked(code: str, env: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True, cwd=ROOT
    )
    return done.stdout.strip()


STATUS = "from kbforge.kernel.binding import kernel_status; print(kernel_status())"


@pytest.mark.slow
@needs_compiler
def test_it_is_built_once_and_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(build.SWITCH, raising=False)
    first = build.build(tmp_path)
    assert first.startswith("the kernel is built (")
    before = (tmp_path / build.LIBRARY).stat().st_mtime_ns
    assert build.build(tmp_path).startswith("the kernel is up to date (")
    assert (tmp_path / build.LIBRARY).stat().st_mtime_ns == before
    said = asked(STATUS, {**os.environ, binding.FOLDER: str(tmp_path)})
    compiler = json.loads((tmp_path / build.ABOUT).read_text())["compiler"]
    assert said == f"compiled kernel ({compiler})"


def test_without_a_compiler_there_is_none_and_a_sentence(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['ziglang'] = None\n"
        "from kbforge.kernel import build\n"
        "import importlib.util as u; u.find_spec = lambda name: None\n"
        "print(build.build(build.Path(sys.argv[1])))"
    )
    env = without_compilers(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env=env,
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    reason = "no C++ compiler was found when KBForge was installed"
    assert done.stdout.strip() == f"no kernel: {reason}"
    said = asked(STATUS, {**os.environ, binding.FOLDER: str(tmp_path)})
    assert said == f"no kernel: {reason}; {build.AGAIN}"


@needs_compiler
@pytest.mark.skipif(shutil.which("sh") is None, reason="there is no shell")
def test_a_compiler_that_fails_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(build.SWITCH, raising=False)
    refuse = 'case " $* " in *" --version "*|*try.cpp*) ;; *) echo a fault >&2; exit 1;; esac'
    monkeypatch.setenv("CXX", compiler_that(tmp_path, refuse))
    said = build.build(tmp_path)
    assert re.match(r"no kernel: .* could not compile it \(", said)
    assert not (tmp_path / build.LIBRARY).exists()


@pytest.mark.skipif(shutil.which("sh") is None, reason="there is no shell")
def test_a_command_that_is_no_compiler_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "c++"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setitem(sys.modules, "ziglang", None)
    assert build.find_compiler() is None


def compiler_that(folder: Path, script: str) -> str:
    """A command in front of the compiler there is."""
    compiler = build.find_compiler()
    assert compiler is not None
    command = folder / "wrapped"
    command.write_text(f'#!/bin/sh\n{script}\nexec {" ".join(compiler.command)} "$@"\n')
    command.chmod(0o755)
    return str(command)


@needs_compiler
@pytest.mark.skipif(shutil.which("sh") is None, reason="there is no shell")
def test_a_static_cpp_library_is_not_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse = 'case " $* " in *" -static-libstdc++ "*) echo no such library >&2; exit 1;; esac'
    monkeypatch.setenv("CXX", compiler_that(tmp_path, refuse))
    monkeypatch.delenv(build.SWITCH, raising=False)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "small.cpp").write_text(
        '#include <vector>\nextern "C" __attribute__((visibility("default")))'
        " int f(int n) { return std::vector<int>(n, 7)[0]; }\n"
    )
    made = build.build(tmp_path / "made", sources=tmp_path / "src")
    assert made.startswith("the kernel is built (")
    assert CDLL(str(tmp_path / "made" / build.LIBRARY)).f(3) == 7


@needs_compiler
@pytest.mark.skipif(shutil.which("sh") is None, reason="there is no shell")
def test_the_compiler_that_is_asked_for_may_have_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", f'{compiler_that(tmp_path, "")} -DSOME="a b"')
    compiler = build.find_compiler()
    assert compiler is not None
    assert compiler.command == (str(tmp_path / "wrapped"), "-DSOME=a b")


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("asked_for", ["", "nothing/of/the/kind", 'g++ "without an end'])
def test_a_wrong_wish_for_a_compiler_is_passed_over(
    asked_for: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    usual = build.find_compiler()
    monkeypatch.setenv("CXX", asked_for)
    assert build.find_compiler() == usual


def test_a_folder_that_cannot_be_written_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(build.SWITCH, raising=False)
    (tmp_path / "file").write_text("")
    said = build.build(tmp_path / "file" / "folder")
    assert said.startswith("no kernel: it could not be written (")


@pytest.mark.skipif(platform.system() != "Linux", reason="other systems have one C library")
@pytest.mark.parametrize(
    ("machine", "library", "wanted"),
    [("x86_64", "glibc", True), ("x86_64", "", False), ("an unknown one", "glibc", False)],
)
def test_zig_is_asked_for_where_its_library_can_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: str, library: str, wanted: bool
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CXX", build.SWITCH):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "ziglang", None)
    monkeypatch.setattr(build.platform, "machine", lambda: machine)
    monkeypatch.setattr(build.platform, "libc_ver", lambda: (library, "2.36"))
    assert build.wants_zig() is wanted


@pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None,
    reason="the wheel ziglang is not installed: pip install ziglang",
)
def test_zig_builds_one_that_loads_and_leaves_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CXX", build.SWITCH):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    made = tmp_path / "made"
    assert build.build(made).startswith("the kernel is built (zig, ")
    assert {path.name for path in made.iterdir()} == {build.LIBRARY, build.ABOUT}
    assert list(home.iterdir()) == []
    said = asked(STATUS, {**os.environ, binding.FOLDER: str(made)})
    assert said.startswith("compiled kernel (zig, ")
    if platform.system() == "Linux":
        assert build.wheel_platform(made) == f"manylinux_2_28_{platform.machine()}"
        asks_for = re.findall(rb"GLIBC_(\d+)\.(\d+)", (made / build.LIBRARY).read_bytes())
        assert asks_for
        assert max((int(major), int(minor)) for major, minor in asks_for) <= (2, 28)


def test_the_functions_that_must_agree_with_python_are_looked_up_in_the_process() -> None:
    # a compiler's runtime may bring an exp of its own; linked in, it hides that of the C library
    for path in (ROOT / "kbforge/kernel/src").iterdir():
        if path.name != "numbers.hpp":
            assert not re.findall(r"std::(?:exp|log|log10|pow)\(", path.read_text()), path.name


def test_a_portable_kernel_takes_no_compiler_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(build.SWITCH, "portable")
    monkeypatch.setitem(sys.modules, "ziglang", None)
    assert build.find_compiler() is None
    assert build.wants_zig() == (build.zig_platform() is not None)
    assert build.build(tmp_path).startswith("no kernel: no C++ compiler was found")


def test_a_wheel_with_the_kernel_of_a_systems_compiler_is_for_systems_like_it(
    tmp_path: Path,
) -> None:
    (tmp_path / build.ABOUT).write_text('{"compiler": "c++ 12"}')
    system = sysconfig.get_platform().replace("universal2", platform.machine())
    assert build.wheel_platform(tmp_path) == system.replace("-", "_").replace(".", "_")


@pytest.mark.parametrize("content", [b"", b"\x7fELF and no more", b"text"])
def test_a_damaged_library_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / build.LIBRARY).write_bytes(content)
    said = asked(STATUS, {**os.environ, binding.FOLDER: str(tmp_path)})
    assert said.startswith("no kernel: the library cannot be loaded (")


def other_functions() -> str:
    """All functions of the interface, of a later version."""
    names = "".join(f"void {name}() {{}} " for name in read_prototypes() if name != "kb_version")
    return f'extern "C" {{ int kb_version() {{ return {binding.VERSION + 1}; }} {names}}}'


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize(
    "source",
    ['extern "C" int nothing() { return 1; }', other_functions()],
    ids=["functions missing", "another version"],
)
def test_a_library_of_another_version_is_none_and_a_run_says_so(
    tmp_path: Path, source: str
) -> None:
    compiler = build.find_compiler()
    assert compiler is not None
    (tmp_path / "other.cpp").write_text(source)
    out = str(tmp_path / build.LIBRARY)
    subprocess.run(
        [*compiler.command, "-shared", "-fPIC", str(tmp_path / "other.cpp"), "-o", out], check=True
    )
    (tmp_path / "f.jsonl").write_text('{"id": "a", "properties": {"name": ["Ann"]}}\n')
    said = "no kernel: it belongs to a different version; install KBForge again\n"
    folder = str(tmp_path)
    assert kbforge("--version", KBFORGE_KERNEL_FOLDER=folder).out.endswith(f"\n{said}")
    for target in (("-o", "kb.jsonl"), ("--into", "kb.sqlite")):
        done = kbforge("cluster", "f.jsonl", *target, cwd=tmp_path, KBFORGE_KERNEL_FOLDER=folder)
        assert (done.code, done.err) == (1, f"kbforge: {said}")


def test_help_does_not_load_it() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from kbforge.cli.main import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        "print('kbforge.kernel.binding' in sys.modules)"
    )
    assert asked(code, dict(os.environ)) == "False"
