"""The files that build wheels, an image and a conda package agree with the rest."""

from __future__ import annotations

import re
from typing import Any

import yaml
from packaging.requirements import Requirement

import kbforge
from kbforge.kernel.build import PLATFORMS, TARGET
from tests.packaging.test_metadata import PROJECT, ROOT


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_a_wheel_is_built_for_every_platform_that_zig_compiles_for() -> None:
    job = read(".github/workflows/wheels.yml")["jobs"]["wheel"]
    assert {each["platform"] for each in job["strategy"]["matrix"]["include"]} == set(PLATFORMS)
    (step,) = (step for step in job["steps"] if "cibuildwheel" in step.get("uses", ""))
    assert step["env"]["CIBW_ENVIRONMENT"] == f"{TARGET}=${{{{ matrix.platform }}}}"
    script = step["env"]["CIBW_TEST_COMMAND"].split("{project}/")[1]
    assert (ROOT / script).is_file()


def test_every_action_is_of_a_fixed_version() -> None:
    jobs = read(".github/workflows/wheels.yml")["jobs"].values()
    used = [step["uses"] for job in jobs for step in job["steps"] if "uses" in step]
    assert [action for action in used if not re.fullmatch(r"[\w./-]+@v\d[\d.]*", action)] == []


def test_the_conda_package_needs_what_the_wheel_needs() -> None:
    recipe = read("conda/recipe.yaml")
    assert recipe["context"]["version"] == kbforge.__version__
    needed = {
        str(Requirement(line.partition(";")[0])) for line in PROJECT["project"]["dependencies"]
    }
    run = {str(Requirement(line)) for line in recipe["requirements"]["run"]}
    assert run == needed | {f"python{PROJECT['project']['requires-python']}"}


def test_the_image_runs_as_nobody_special_and_is_built_from_what_a_wheel_needs() -> None:
    last = (ROOT / "Dockerfile").read_text(encoding="utf-8").split("\nFROM ")[-1]
    assert re.search(r"^USER [1-9]\d*$", last, re.MULTILINE)
    sent = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    folders = {package.split("/")[0] for package in wheel["packages"]}
    folders |= {source.split("/")[0] for source in wheel["force-include"]}
    files = {*PROJECT["project"]["license-files"], PROJECT["project"]["readme"]}
    assert sent[0] == "**"
    assert {f"!{name}" for name in (*folders, *files, "pyproject.toml")} <= set(sent)
