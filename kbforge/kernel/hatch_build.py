"""The build hook: puts the kernel into wheels and editable installations.

The bill of materials is a CycloneDX document in the wheel's folder of metadata (PEP 770). It lists
the distribution's requirements, the tables of other projects that it contains, and the compiler of
the kernel. The same sources and compiler give the same bytes.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_FOLDER = "kbforge/kernel"
_TABLES = "plugins/kbforge_plugins/likelihoods/pairs/known.json"


def _builder(root: str) -> Any:
    """The module `kbforge.kernel.build`, of a package that is not installed yet."""
    path = Path(root, _FOLDER, "build.py")
    spec = importlib.util.spec_from_file_location("kbforge_kernel_build", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


# hatchling is there in some environments only
class WheelHook(BuildHookInterface):  # type: ignore[misc, type-arg, unused-ignore]
    """See `hatchling`."""

    def dependencies(self) -> list[str]:
        """A compiler, if the system has none."""
        builder = _builder(self.root)
        return [builder.ZIG] if self.target_name == "wheel" and builder.wants_zig() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the kernel; without a working compiler, the installation ends with a message."""
        if self.target_name != "wheel":
            return
        builder = _builder(self.root)
        for name in (_FOLDER, *self.config.get("libraries", ())):
            folder = Path(self.root, name)
            said = builder.build(folder, sources=folder / "src")
            if said.startswith(builder.NONE):
                self.app.abort(f"KBForge cannot be installed: {said}; {builder.AGAIN}")
            self.app.display_info(f"{name}: {said}")
            build_data["artifacts"] += [f"{name}/{builder.ABOUT}", f"{name}/{builder.LIBRARY}"]
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{builder.wheel_platform()}"
        self._scratch = tempfile.TemporaryDirectory()
        name = self.metadata.core.name
        bill = Path(self._scratch.name, f"{name}.cdx.json")
        kernel = builder.about_library(Path(self.root, _FOLDER))
        document = bill_of_materials(self.metadata, self.root, kernel)
        bill.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        build_data["sbom_files"].append(str(bill))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the files written for the wheel."""
        if self.target_name == "wheel":
            self._scratch.cleanup()


def bill_of_materials(metadata: Any, root: str, kernel: dict[str, str]) -> dict[str, Any]:
    """The CycloneDX document of a distribution; `kernel` describes how its kernel was built."""
    core = metadata.core
    required = list(_required(core))
    components = [*required, *_contained(root)]
    if "compiler" in kernel:
        compiler = {"type": "application", "bom-ref": "compiler", "name": "C++ compiler"}
        components.append({**compiler, "version": kernel["compiler"], "scope": "excluded"})
    name = f"pkg:pypi/{core.name}@{metadata.version}"
    needed = [each["bom-ref"] for each in required if each["scope"] == "required"]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "lifecycles": [{"phase": "build"}],
            "component": {
                "type": "library",
                "bom-ref": name,
                "name": core.name,
                "version": metadata.version,
                "description": core.description,
                "licenses": [{"license": {"id": core.license_expression}}],
                "purl": name,
            },
        },
        "components": components,
        "dependencies": [{"ref": name, "dependsOn": needed}],
    }


def _required(core: Any) -> Iterator[dict[str, Any]]:
    """The requirements: always or (scope optional) with an extra."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    extras = {"": core.dependencies, **core.optional_dependencies}
    found: dict[str, dict[str, Any]] = {}
    for extra, lines in extras.items():
        for line in lines:
            name = canonicalize_name(Requirement(line).name)
            each = found.setdefault(name, {"scope": "optional", "properties": []})
            if not extra:
                each["scope"] = "required"
            what = f"kbforge:requirement:{extra}" if extra else "kbforge:requirement"
            each["properties"].append({"name": what, "value": line})
    found.pop(canonicalize_name(core.name), None)  # an extra that has the others
    for known, each in sorted(found.items()):
        purl = f"pkg:pypi/{known}"
        yield {"type": "library", "bom-ref": purl, "name": known, "purl": purl, **each}


def _contained(root: str) -> Iterator[dict[str, Any]]:
    """The tables of other projects that the wheel contains."""
    known = json.loads(Path(root, _TABLES).read_text(encoding="utf-8"))
    for origin in known["origins"]:
        released, address = origin["from"].split(", ")
        name, version = released.split()
        purl = f"pkg:pypi/{name}@{version}"
        yield {
            "type": "data",
            "bom-ref": purl,
            "name": name,
            "version": version,
            "description": f"{origin['table']}, in {_TABLES.partition('/')[2]}",
            "scope": "required",
            "licenses": [{"license": {"id": origin["licence"]}}],
            "copyright": origin["copyright"],
            "purl": purl,
            "externalReferences": [{"type": "vcs", "url": address}],
        }
