"""`make gpu`: the checks that need a GPU, in under four minutes, and their figures as JSON.

    python -m tests.lm.gpu [--out build/gpu] [--cpu]

writes OUT/checks.json. It builds nothing and fetches nothing; what a bare machine lacks comes from
`make gpu-pack` (see `tests.lm.gpu.bare`). --cpu runs the same code on the CPU, smaller.
"""

import argparse
import os
import sys
from pathlib import Path

from tests.lm.gpu import bare


def main() -> None:
    """Run the checks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=bare.ROOT / "build" / "gpu")
    parser.add_argument("--pack", type=Path, default=bare.PACK)
    parser.add_argument("--cpu", action="store_true", help="show that the checks work")
    options = parser.parse_args()
    bare.enter(options.pack)
    options.out.mkdir(parents=True, exist_ok=True)
    os.environ["KBFORGE_GPU_FIGURES"] = str(options.out.resolve() / "checks.json")
    if options.cpu:
        os.environ["KBFORGE_GPU_CHECKS"] = "cpu"
    # a machine's own plugins of pytest are not ours
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    import pytest

    sys.exit(
        pytest.main(["-rs", "-p", "no:cacheprovider", str(bare.ROOT / "tests/lm/gpu/test_gpu.py")])
    )


if __name__ == "__main__":
    main()
