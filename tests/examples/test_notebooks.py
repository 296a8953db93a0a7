"""The notebooks run from top to bottom in a kernel, and are kept without outputs."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("pandas")

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))


def ids(path: Path) -> str:
    return path.stem


def test_there_are_two():
    assert [path.stem for path in NOTEBOOKS] == ["from_splink", "tutorial"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=ids)
def test_a_notebook_is_kept_without_outputs(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell for cell in code if cell["outputs"] or cell["execution_count"]] == []


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """A kernel of this very interpreter, whatever others are installed."""
    spec = tmp_path / "kernels" / "python3"
    spec.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    about = {"argv": argv, "display_name": "Python 3", "language": "python"}
    (spec / "kernel.json").write_text(json.dumps(about), encoding="utf-8")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "0")
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))

    def run(notebook: Any, folder: Path) -> list[Any]:
        client = nbclient.NotebookClient(
            notebook, timeout=300, resources={"metadata": {"path": str(folder)}}
        )
        client.execute()
        return [output for cell in notebook.cells for output in cell.get("outputs", ())]

    return run


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=ids)
def test_a_notebook_runs_and_shows_short_results(path, kernel):
    outputs = kernel(nbformat.read(path, as_version=4), path.parent)
    shown = [output for output in outputs if output.output_type == "execute_result"]
    assert len(shown) >= 4
    assert all(len(json.dumps(output.data)) < 20_000 for output in shown)
    assert [output for output in outputs if output.output_type == "error"] == []
    assert [output for output in outputs if output.get("name") == "stderr"] == []


@pytest.mark.slow
def test_a_run_in_a_notebook_shows_a_bar_that_is_gone_at_the_end(kernel, tmp_path):
    code = (
        "import kbforge\n"
        "from kbforge.jobs import notebook\n"
        "drawn, make = [], notebook._html\n"
        "notebook._html = lambda *a: drawn.append(make(*a)) or drawn[-1]\n"
        "kb = kbforge.cluster([{'name': f'n{i}'} for i in range(50)])\n"
        "print(drawn[0], drawn[-1])"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    display, printed = kernel(notebook, tmp_path)
    assert "<progress></progress> <small>preparing" in printed.text
    assert 'max="50"' in printed.text
    assert display.data["text/html"] == ""
