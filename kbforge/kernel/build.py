"""Builds the kernel: compiles the C++ sources of `src` to a shared library.

A package may have a separate library, whose sources use those of the kernel.

The system's compiler is used if one works, otherwise that of the wheel `ziglang`. The kernel must
call the floating-point functions of the process's C library, like Python, so that library is never
linked statically. The C++ library is, because the machine that uses a wheel may have another one.

    python kbforge/kernel/build.py                                  build it again
    python kbforge/kernel/build.py FOLDER                           another one, of FOLDER/src
    python kbforge/kernel/build.py --sanitize -o DIR                one that looks for errors
    KBFORGE_KERNEL_TARGET=win_amd64 python kbforge/kernel/build.py -o DIR       one for Windows

This module runs before KBForge is installed: it imports only the standard library.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "src"
LIBRARY = "kernel.so"
"""The same name on every system, because callers load it by its full path."""
ABOUT = "kernel.json"
SWITCH = "KBFORGE_KERNEL"
"""The variable: "portable" uses zig even if there is a compiler."""
TARGET = "KBFORGE_KERNEL_TARGET"
"""Variable that names the target system, by the platform tag of its wheels; zig compiles for it."""
ZIG = "ziglang>=0.13"
"""The wheel to install if there is no compiler."""
AGAIN = (
    "install a C++ compiler (c++, g++ or clang++), or name one with CXX, and install KBForge again"
)
"""What to do if there is no kernel."""
NONE = "no kernel: "
"""The beginning of a failed build's message."""
# zig links against as old a C library as the system may have: glibc 2.28 is in what NumPy's wheels
# ask for, too, and macOS 11 is the first of its processors. With musl zig is not asked for.
PLATFORMS = {
    "manylinux_2_28_x86_64": "x86_64-linux-gnu.2.28",
    "manylinux_2_28_aarch64": "aarch64-linux-gnu.2.28",
    "macosx_11_0_x86_64": "x86_64-macos.11.0",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
    "win_amd64": "x86_64-windows-gnu",
    "win_arm64": "aarch64-windows-gnu",
}
"""Targets of zig: its own name by the platform tag of the wheel."""
_HERE = {
    ("Linux", "x86_64"): "manylinux_2_28_x86_64",
    ("Linux", "aarch64"): "manylinux_2_28_aarch64",
    ("Darwin", "x86_64"): "macosx_11_0_x86_64",
    ("Darwin", "arm64"): "macosx_11_0_arm64",
    ("Windows", "AMD64"): "win_amd64",
    ("Windows", "ARM64"): "win_arm64",
}
_FLAGS = ("-std=c++17", "-O3", "-ffp-contract=off", "-fno-fast-math", "-fvisibility=hidden")
# A C++ library of its own, seen by nobody else: a process has others, torch's for one. Some systems
# have a compiler, but no static library for it.
_OWN_LIBRARIES = ("-static-libstdc++", "-static-libgcc", "-Wl,--exclude-libs,ALL")
_SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1", "-g")
_SECONDS = 600


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: its command, its version, and zig's target platform."""

    command: tuple[str, ...]
    version: str
    platform: str = ""

    @property
    def system(self) -> str:
        """The target system, in the terms of `platform.system`."""
        return next((s for (s, _), tag in _HERE.items() if tag == self.platform), platform.system())


def find_compiler() -> Compiler | None:
    """The system's compiler, else zig's if the wheel is installed, else none."""
    for words in () if _portable() else (_wanted(), ["c++"], ["g++"], ["clang++"]):
        path = shutil.which(words[0]) if words else None
        compiler = _tried((path, *words[1:])) if path else None
        if compiler:
            return compiler
    tag = zig_platform()
    if tag and importlib.util.find_spec("ziglang"):
        # not tried: it would compile a C++ library for that
        command = (sys.executable, "-m", "ziglang", "c++", "-target", PLATFORMS[tag])
        return Compiler(command, _version(command), tag)
    return None


def _portable() -> bool:
    """Whether the kernel is for other systems, for which zig compiles."""
    return os.environ.get(SWITCH) == "portable" or TARGET in os.environ


def _wanted() -> list[str]:
    """The words of $CXX, such as those of "ccache g++"."""
    try:
        return shlex.split(os.environ.get("CXX", ""))
    except ValueError:  # a quotation without an end
        return []


def zig_platform() -> str | None:
    """The target platform of zig; None if its library could not be loaded here.

    Raises:
        ValueError: `TARGET` names none of `PLATFORMS`.
    """
    wanted = os.environ.get(TARGET)
    if wanted is not None:
        if wanted not in PLATFORMS:
            raise ValueError(f"{TARGET}: expected one of {', '.join(PLATFORMS)}, got {wanted!r}")
        return wanted
    if platform.system() == "Linux" and platform.libc_ver()[0] != "glibc":
        return None
    return _HERE.get((platform.system(), platform.machine()))


def wheel_platform(folder: Path = HERE) -> str:
    """The platform tag of a wheel with the kernel that `build` put into a folder.

    zig's kernel runs on every system with its C library or a later one, another compiler's on
    systems like this.
    """
    platform_of_zig = about_library(folder).get("platform")
    # a Python for two kinds of Mac compiles for one
    system = sysconfig.get_platform().replace("universal2", platform.machine())
    return (platform_of_zig or system).replace("-", "_").replace(".", "_")


def wants_zig() -> bool:
    """Whether the compiler's wheel should be installed."""
    return zig_platform() is not None and find_compiler() is None


def build(folder: Path = HERE, sanitize: bool = False, sources: Path = SOURCES) -> str:
    """Build the library, unless the existing one has the same sources and compiler.

    Returns a sentence about the result; it begins with `NONE` if there is no kernel now. `sanitize`
    adds checks for errors at run time.
    """
    try:
        return _build(folder, sanitize, sources.resolve())
    except OSError as error:
        return f"{NONE}it could not be written ({error})"


def _build(folder: Path, sanitize: bool, sources: Path) -> str:
    library, about = folder / LIBRARY, folder / ABOUT
    folder.mkdir(parents=True, exist_ok=True)
    compiler = find_compiler()
    if compiler is None:
        return _without(library, about, "no C++ compiler was found when KBForge was installed")
    flags, linking = _flags(compiler, sanitize)
    digest = _digest(compiler, (*flags, *linking), sources)
    if library.is_file() and about_library(folder).get("digest") == digest:
        return f"the kernel is up to date ({compiler.version})"
    failure = _compile(compiler, flags, linking, library, sources)
    if failure:
        return _without(library, about, f"{compiler.version} could not compile it ({failure})")
    told = {"compiler": compiler.version, "digest": digest}
    if compiler.platform:
        told["platform"] = compiler.platform
    about.write_text(json.dumps(told) + "\n")
    return f"the kernel is built ({compiler.version})"


def _without(library: Path, about: Path, reason: str) -> str:
    library.unlink(missing_ok=True)
    about.write_text(json.dumps({"none": reason}) + "\n")
    return f"{NONE}{reason}"


def about_library(folder: Path) -> dict[str, str]:
    """What the last build into a folder recorded about its library, {} if nothing can be read."""
    try:
        told = json.loads((folder / ABOUT).read_text())
    except (OSError, ValueError):
        return {}
    return {key: str(value) for key, value in told.items()} if isinstance(told, dict) else {}


def _flags(compiler: Compiler, sanitize: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The flags for compiling a source, and those for linking."""
    threads = () if compiler.system == "Windows" else ("-fPIC", "-pthread")  # always so there
    flags = (*_FLAGS, *threads, *(_SANITIZERS if sanitize else ()))
    linux = compiler.system == "Linux"
    linking = ["-shared", *threads, *(_SANITIZERS if sanitize else ())]
    if linux:
        linking += ["-ldl"]  # a part of libc since glibc 2.34
    if not compiler.platform and linux:
        linking += _OWN_LIBRARIES
    if compiler.platform and not sanitize:  # zig's C++ library is always its own
        flags, linking = (*flags, "-g0"), [*linking, "-s"]
    return flags, tuple(linking)


def _digest(compiler: Compiler, flags: Sequence[str], sources: Path) -> str:
    # where zig lies does not matter: it is fetched into another folder each time
    command = compiler.command[3:] if compiler.platform else compiler.command
    hasher = hashlib.sha256(repr((command, compiler.version, tuple(flags))).encode())
    for path in sorted({*SOURCES.iterdir(), *sources.iterdir()}):
        hasher.update(path.name.encode() + b"\0" + path.read_bytes())
    return hasher.hexdigest()


def _compile(
    compiler: Compiler, flags: Sequence[str], linking: Sequence[str], library: Path, sources: Path
) -> str:
    """Compile the sources in parallel, and link; returns the first error, "" if there is none."""
    with tempfile.TemporaryDirectory(dir=library.parent) as made:
        scratch = Path(made)
        objects = {one: str(scratch / f"{one.stem}.o") for one in sorted(sources.glob("*.cpp"))}

        def compiled(source: Path) -> str | None:
            what = (f"-I{SOURCES}", "-c", str(source), "-o", objects[source])
            return _run([*compiler.command, *flags, *what], scratch)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            failures = [said for said in pool.map(compiled, objects) if said is not None]
        out = scratch / LIBRARY
        said = failures[0] if failures else None
        lenient = [flag for flag in linking if flag not in _OWN_LIBRARIES]
        for tried in () if failures else (linking, lenient):
            said = _run([*compiler.command, *objects.values(), *tried, "-o", str(out)], scratch)
            if said is None and out.is_file():
                out.replace(library)  # a process that has the old one open keeps it
                return ""
    lines = (said or "it wrote no file").strip().splitlines()
    return next((line for line in lines if "error" in line), lines[0])[:300]


def _tried(command: tuple[str, ...]) -> Compiler | None:
    """The compiler, if it can compile and link a test program."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "try.cpp"
        source.write_text(
            '#include <cmath>\n#include <vector>\nextern "C" double f(double x)'
            " { return std::vector<double>(3, std::exp(x))[1]; }\n"
        )
        words = ("-std=c++17", "-shared", "-fPIC", str(source), "-o", str(Path(folder) / "try.so"))
        if _run([*command, *words], Path(folder)) is not None:
            return None
    return Compiler(command, _version(command))


def _version(command: tuple[str, ...]) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        try:
            done = _asked([*command, "--version"], Path(scratch), 60)
        except (OSError, subprocess.TimeoutExpired):
            return "a compiler of unknown version"
    first = (done.stdout or done.stderr).strip().splitlines() or ["a compiler"]
    return f"zig, {first[0]}" if "ziglang" in command else first[0]


def _run(command: Sequence[str], scratch: Path) -> str | None:
    """Run a compiler; returns its message if it fails, otherwise None."""
    try:
        done = _asked(command, scratch, _SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"


def _asked(command: Sequence[str], scratch: Path, seconds: int) -> subprocess.CompletedProcess[str]:
    """Run a command; zig's cache, a hundred megabytes, goes into the folder `scratch`."""
    kept = {f"ZIG_{which}_CACHE_DIR": str(scratch / "zig") for which in ("GLOBAL", "LOCAL")}
    return subprocess.run(
        command,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
        timeout=seconds,
        env={**os.environ, "LC_ALL": "C", **kept},
    )


def main() -> None:
    """Build from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sanitize", action="store_true", help="look for errors at run time")
    parser.add_argument("-o", "--output", type=Path, help="folder of the library")
    parser.add_argument("library", type=Path, nargs="?", default=HERE, help="has sources in src")
    given = parser.parse_args()
    if (given.sanitize or TARGET in os.environ) and given.output is None:
        parser.error(f"--sanitize and {TARGET} need another folder: --output DIR")
    library = given.library.resolve()
    said = build(given.output or library, given.sanitize, library / "src")
    print(said)
    sys.exit(said.startswith(NONE))


if __name__ == "__main__":
    main()
