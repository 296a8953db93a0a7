"""Whether an installed wheel works: its kernel loads, and clusters what ships."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> None:
    """Print the kernel's status; an AssertionError says what is wrong."""
    import kbforge
    from kbforge.kernel.binding import kernel_status

    print(kernel_status())
    assert kernel_status().startswith("compiled kernel")
    assert len(kbforge.datasets.people()) == 20
    fragments = Path(kbforge.__file__).parent / "datasets" / "mentions.jsonl"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "kb.jsonl"
        command = ["-m", "kbforge.cli.main", "cluster", str(fragments), "-o", str(out)]
        subprocess.run([sys.executable, *command], check=True)
        assert out.stat().st_size > 10_000


if __name__ == "__main__":
    main()
