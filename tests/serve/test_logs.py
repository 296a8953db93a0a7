"""Structured logs, and the file for Docker Compose of the documentation."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from starlette.testclient import TestClient

from kbforge_serve import logs
from kbforge_serve.app import application
from kbforge_serve.security import Access
from kbforge_serve.service import Service
from kbforge_serve.tokens import Right, Token
from tests.serve.conftest import PEOPLE

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"
ADA = Token("0123456789abcdef", Right.WRITE, "ada")
SECRET = "Wolfeschlegelsteinhausen"


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


@pytest.fixture
def logging_on() -> Any:
    log = logs._LOG
    before = log.handlers[:], log.level, log.propagate
    yield logs.begin
    log.handlers[:], log.level, log.propagate = before


def test_answers_and_writes_are_lines(
    store: Path, capsys: pytest.CaptureFixture[str], logging_on: Any
) -> None:
    logging_on()
    app = application(Service(str(store)), Access("0.0.0.0", [ADA]))
    bearing = {"authorization": f"Bearer {ADA.secret}"}
    with TestClient(app, "http://localhost", headers=bearing) as client:
        one = {"id": SECRET, "properties": {"name": [SECRET]}}
        assert client.post("/api/fragments", json=one).status_code == 200
        client.get("/api/search", params={"q": SECRET})
        client.get(f"/entity/{SECRET}")
        client.post("/api/decisions/99/undo")
        client.delete(f"/api/fragments?id={SECRET}")
        client.get("/api/status", headers={"authorization": "Bearer wrong-0123456789"})
    said = capsys.readouterr().err
    assert SECRET not in said
    assert ADA.secret not in said
    assert "wrong-0123456789" not in said
    lines = lines_of(said)
    requests = [(x["method"], x["route"], x["status"], x["who"]) for x in lines if "route" in x]
    assert requests == [
        ("POST", "/api/fragments", 200, "ada"),
        ("GET", "/api/search", 200, "ada"),
        ("GET", "/entity/{id}", 404, "ada"),
        ("POST", "/api/decisions/{number}/undo", 404, "ada"),
        ("DELETE", "other", 403, "ada"),
        ("GET", "other", 401, None),
    ]
    added, undone = (x for x in lines if "run" in x)
    assert (added["write"], added["run"], added["who"], added["store"]) == ("Added", 2, "ada", "kb")
    assert (undone["error"], undone["run"]) == ("NotFoundError", None)
    for line in lines:
        assert line["store"] == "kb"
        assert 0 <= line["ms"] < 1e6
        assert datetime.fromisoformat(line["time"]).tzinfo is not None


def test_nothing_is_logged_unless_it_is_asked_for(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with TestClient(application(Service(str(store))), "http://localhost") as client:
        client.get("/api/status")
    assert not lines_of(capsys.readouterr().err)


def test_the_command_of_the_compose_file_serves(store: Path, tmp_path: Path) -> None:
    """Everything but the container: its command, its check, its folder and its secret."""
    (text,) = re.findall(r"```yaml\n(services:.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    compose = yaml.safe_load(text)
    service = compose["services"]["kbforge"]
    assert service["secrets"] == [*compose["secrets"]] == ["tokens"]
    assert service["volumes"] == ["./stores:/stores"]
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(f'[ada]\ntoken = "{ADA.secret}"\nright = "write"\nstores = ["kb"]\n')
    *shell, script = service["command"]
    installs, script = script.splitlines()
    assert (shell, installs) == (["sh", "-ec"], "pip install 'entity-fragments[serve]'")
    script = script.replace("kbforge", f"{sys.executable} -m kbforge")
    script = script.replace("/stores", str(store.parent)) + " --port 0"
    script = script.replace("/run/secrets/tokens", str(tokens))
    environment = {k: v for k, v in os.environ.items() if k != "KBFORGE_TOKEN"}
    command = [*shell, script]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stderr is not None
            found = re.search(r":(\d+)/ ", line := process.stderr.readline())
            assert found, line
            check = shlex.split(service["healthcheck"]["test"].replace("8000", found[1]))
            assert check[0] == "python"
            assert subprocess.run([sys.executable, *check[1:]], timeout=60).returncode == 0
            bearing = {"authorization": f"Bearer {ADA.secret}"}
            url = f"http://localhost:{found[1]}/s/kb/api/status"
            assert httpx.get(url, headers=bearing).json()["fragments"] == len(PEOPLE)
            process.send_signal(signal.SIGTERM)
            said = lines_of(process.stderr.read())
            assert process.wait(60) == 143
        finally:
            process.kill()
    assert [(x["store"], x["route"], x["who"]) for x in said] == [
        (None, "/healthz", None),
        ("kb", "/api/status", "ada"),
    ]
