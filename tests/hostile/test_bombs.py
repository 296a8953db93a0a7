"""Small files that unpack to large ones end with a sentence, in bounded memory and time.

Each is read by a process of its own, which the system ends where it takes too long.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.bombs import BOMBS
from tests.hostile.readers import PROGRAM

MOST_MIB = 500
MOST_SECONDS = 60  # of the processor, of which a tenth is used; without bounds it is minutes
VERBS = {
    ".xlsx": "load {} -o out.jsonl",
    ".jsonl": "cluster {} -o out.jsonl",
    ".csv": "load {} -o out.jsonl",
    ".json": "load {} --id id --on-error quarantine -o out.jsonl",
    ".graphml": "load {} -o out.jsonl",
    ".parquet": "cluster {} -o out.jsonl",
    ".toml": "run {} --dry-run",
}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is measured by the system")


# A process starts with the peak of the one that forked it, so a small one starts it.
STARTER = """
import json, os, resource, subprocess, sys
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[1]),) * 2)
run = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
said = run.stderr.read().decode()
_, status, used = os.wait4(run.pid, 0)
seconds = used.ru_utime + used.ru_stime
print(json.dumps([os.waitstatus_to_exitcode(status), said, used.ru_maxrss / 1024, seconds]))
"""


def measured(command: str, file: Path) -> tuple[int, str, float, float]:
    """Exit code, standard error, MiB and seconds of the processor of a command on a file."""
    words = [*PROGRAM, *command.replace("{}", str(file)).split()]
    start = [sys.executable, "-c", STARTER, str(MOST_SECONDS), *words]
    run = subprocess.run(start, cwd=file.parent, stdout=subprocess.PIPE, check=True)
    code, said, mib, seconds = json.loads(run.stdout)
    return code, said, mib, seconds


def check(name: str, size: int, folder: Path) -> None:
    suffix = Path(BOMBS[name][0]).suffix
    file = folder / BOMBS[name][0]
    file.write_bytes(BOMBS[name][1](size))
    code, said, mib, seconds = measured(VERBS[suffix], file)
    print(f"{name}: {file.stat().st_size:,} bytes, {mib:.0f} MiB, {seconds:.1f} s: {said}")
    assert code in (1, 2), said
    assert said.count("\n") == 1
    assert "Traceback" not in said
    assert mib < MOST_MIB
    assert not (folder / "out.jsonl").exists()


# one of each format; what a slow test makes of all unpacks to more than the bound of the memory
FEW = ("a cell", "a line", "empty rows of a table", "an array of junk", "a text that rows share")


@pytest.mark.parametrize("name", [*FEW, "dots"])
def test_bombs(name, tmp_path):
    check(name, 256, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_large_bombs(name, tmp_path):
    check(name, 640, tmp_path)
