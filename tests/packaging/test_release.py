"""The files that build wheels, an image and a conda package agree with the rest, and so do those
that a new user of the repository reads first."""

import re
import shutil
import subprocess
import zipfile
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

import kbforge
from kbforge.kernel.build import PLATFORMS, TARGET
from tests.packaging.test_metadata import PROJECT, ROOT


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_a_wheel_is_built_for_every_platform_that_zig_compiles_for():
    job = read(".github/workflows/wheels.yml")["jobs"]["wheel"]
    assert {each["platform"] for each in job["strategy"]["matrix"]["include"]} == set(PLATFORMS)
    (step,) = (step for step in job["steps"] if "cibuildwheel" in step.get("uses", ""))
    assert step["env"]["CIBW_ENVIRONMENT"] == f"{TARGET}=${{{{ matrix.platform }}}}"
    script = step["env"]["CIBW_TEST_COMMAND"].split("{project}/")[1]
    assert (ROOT / script).is_file()


def test_every_action_is_of_a_commit_and_says_of_which_version():
    workflows = list((ROOT / ".github" / "workflows").glob("*.yml"))
    lines = [line for file in workflows for line in file.read_text(encoding="utf-8").splitlines()]
    used = [line.strip() for line in lines if "uses:" in line]
    assert len(used) >= 6
    pinned = r"- uses: [\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+"
    assert [action for action in used if not re.fullmatch(pinned, action)] == []


def test_wheels_are_published_with_attestations_when_the_owner_agrees():
    workflow = read(".github/workflows/wheels.yml")
    assert workflow["permissions"] == {"contents": "read"}
    publish = workflow["jobs"].pop("publish")
    assert set(publish["needs"]) == workflow["jobs"].keys()
    assert publish["if"] == "github.event_name == 'push' && vars.PUBLISH == 'pypi'"
    assert publish["environment"]["name"] == "pypi"  # which waits for its reviewers
    assert publish["permissions"] == {"id-token": "write"}
    assert [job for job in workflow["jobs"].values() if "permissions" in job] == []
    upload = publish["steps"][-1]
    assert "gh-action-pypi-publish" in upload["uses"]
    assert upload["with"] == {"attestations": True}


@pytest.mark.skipif(shutil.which("unzip") is None, reason="unzip is not installed")
@pytest.mark.parametrize(("named", "code"), [("kbforge", 0), ("kbforge2", 1), ("", 1)])
def test_only_a_wheel_that_names_its_repository_is_published(tmp_path, named, code):
    steps = read(".github/workflows/wheels.yml")["jobs"]["publish"]["steps"]
    (script,) = (step["run"] for step in steps if "run" in step)
    (tmp_path / "dist").mkdir()
    with zipfile.ZipFile(tmp_path / "dist" / "x-1-py3-none-any.whl", "w") as wheel:
        url = f"Project-URL: Source, https://host.test/owner/{named}\n" if named else ""
        wheel.writestr("x-1.dist-info/METADATA", f"Name: x\n{url}")
    said = {"GITHUB_SERVER_URL": "https://host.test", "GITHUB_REPOSITORY": "owner/kbforge"}
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", **said}
    ran = subprocess.run(["bash", "-ec", script], cwd=tmp_path, env=environment, check=False)
    assert ran.returncode == code


def test_the_addresses_are_real():
    urls = PROJECT["project"].get("urls", {})
    assert [url for url in urls.values() if not re.match(r"https://[\w.]+/\w", url)] == []
    assert [url for url in urls.values() if "example" in url.lower()] == []


def test_the_citation_is_of_this_version():
    cited = read("CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= cited.keys()  # the format needs them
    assert (cited["title"], cited["type"]) == ("KBForge", "software")
    assert cited["version"] == kbforge.__version__
    assert cited["license"] == PROJECT["project"]["license"]


def test_the_first_change_of_the_guide_fits_and_does_what_it_says():
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (test,) = re.findall(r"^```python\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    (change,) = re.findall(r"^```diff\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    header, hunk = change.split("@@\n")
    file = re.search(r"^\+\+\+ b/(.*)$", header, re.MULTILINE)
    assert file is not None
    old, new = (
        "".join(line[1:] for line in hunk.splitlines(keepends=True) if line[0] in kept)
        for kept in (" -", " +")
    )
    source = (ROOT / file[1]).read_text(encoding="utf-8")
    assert source.count(old) == 1
    for code, passes in ((source, False), (source.replace(old, new), True)):
        words: dict[str, Any] = {}
        exec(compile(code, file[1], "exec"), words)
        names: dict[str, Any] = {}
        exec(compile(test.replace("from kbforge.errors import lasting", ""), "test", "exec"), names)
        names["lasting"] = words["lasting"]
        if passes:
            names["test_a_long_duration_is_in_days"]()
        else:
            with pytest.raises(AssertionError):
                names["test_a_long_duration_is_in_days"]()


def test_nothing_that_a_compiler_wrote_lies_in_the_root():
    assert [file.name for file in ROOT.iterdir() if file.suffix in (".o", ".a", ".so")] == []


def test_the_source_distribution_has_what_a_reader_looks_for():
    sent = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    pages = {f"/{page.name}" for page in ROOT.iterdir() if page.suffix in (".md", ".cff")}
    assert pages <= set(sent)


def test_the_conda_package_needs_what_the_wheel_needs():
    recipe = read("conda/recipe.yaml")
    assert recipe["context"]["version"] == kbforge.__version__
    needed = {
        str(Requirement(line.partition(";")[0])) for line in PROJECT["project"]["dependencies"]
    }
    run = {str(Requirement(line)) for line in recipe["requirements"]["run"]}
    assert run == needed | {f"python{PROJECT['project']['requires-python']}"}


def test_the_image_runs_as_nobody_special_and_is_built_from_what_a_wheel_needs():
    last = (ROOT / "Dockerfile").read_text(encoding="utf-8").split("\nFROM ")[-1]
    assert re.search(r"^USER [1-9]\d*$", last, re.MULTILINE)
    sent = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    folders = {package.split("/")[0] for package in wheel["packages"]}
    folders |= {source.split("/")[0] for source in wheel["force-include"]}
    files = {*PROJECT["project"]["license-files"], PROJECT["project"]["readme"]}
    assert sent[0] == "**"
    assert {f"!{name}" for name in (*folders, *files, "pyproject.toml")} <= set(sent)
