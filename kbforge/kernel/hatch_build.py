"""The build hook: wheels and editable installations contain the compiled kernel."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def _builder(root: str) -> Any:
    """The module `kbforge.kernel.build`, of a package that is not installed yet."""
    path = Path(root, "kbforge", "kernel", "build.py")
    spec = importlib.util.spec_from_file_location("kbforge_kernel_build", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


# hatchling is there in some environments only
class KernelHook(BuildHookInterface):  # type: ignore[misc, type-arg, unused-ignore]
    """See `hatchling`."""

    def dependencies(self) -> list[str]:
        """A compiler, where the system has none."""
        builder = _builder(self.root)
        return [builder.ZIG] if self.target_name == "wheel" and builder.wants_zig() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the kernel, if there is a compiler; without one KBForge works, too."""
        if self.target_name != "wheel":
            return
        builder = _builder(self.root)
        said = builder.build()
        self.app.display_info(said)
        if said.startswith(builder.NONE) and builder.TARGET in os.environ:
            raise RuntimeError(said)  # a wheel for another system is made for its kernel
        folder = "kbforge/kernel"
        build_data["artifacts"].append(f"{folder}/{builder.ABOUT}")
        if not said.startswith(builder.NONE):
            build_data["artifacts"].append(f"{folder}/{builder.LIBRARY}")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{builder.wheel_platform()}"
