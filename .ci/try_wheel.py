"""Whether an installed wheel works: its kernel loads and gives the bytes of the NumPy engine."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path


def clustered(folder: Path, fragments: Path, kernel: str) -> bytes:
    """The knowledge base, with the kernel or, if `kernel` is "0", without."""
    out = folder / f"kb-{kernel}.jsonl"
    command = [sys.executable, "-m", "kbforge.cli.main", "cluster", str(fragments), "-o", str(out)]
    subprocess.run(command, check=True, env={**os.environ, "KBFORGE_KERNEL": kernel})
    return out.read_bytes()


def main() -> None:
    """Print the kernel's status; an AssertionError says what is wrong."""
    import kbforge
    from kbforge.kernel.binding import kernel_status

    print(kernel_status())
    assert kernel_status().startswith("compiled kernel")
    assert len(kbforge.datasets.people()) == 20
    fragments = Path(kbforge.__file__).parent / "datasets" / "mentions.jsonl"
    with tempfile.TemporaryDirectory() as folder:
        found = {clustered(Path(folder), fragments, kernel) for kernel in ("1", "0")}
    assert len(found) == 1


if __name__ == "__main__":
    main()
