"""docs/course.ipynb: its form, and on a clone of the last commit, as a reader runs it."""

import ast
import pathlib
import shutil

import pytest
from programs import ROOT

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")


NOTEBOOK = nbformat.read(ROOT / "docs/course.ipynb", 4)
PROGRAMS = [cell for cell in NOTEBOOK.cells if cell.cell_type == "code"]


def test_it_is_a_notebook_that_stores_no_outputs() -> None:
    nbformat.validate(NOTEBOOK)
    assert PROGRAMS and [cell for cell in PROGRAMS if cell.outputs or cell.execution_count] == []
    transformed = pytest.importorskip("IPython.core.inputtransformer2").TransformerManager().transform_cell
    for cell in PROGRAMS:
        ast.parse(transformed(cell.source))  # without the shell's commands


@pytest.mark.long
@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="the notebook would use this GPU")
def test_it_runs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COURSE", str(ROOT))
    monkeypatch.setenv("DIST_WERROR", "ON")  # no other test builds for the CPU alone
    monkeypatch.setenv("LEARN_PRESET", "cpu")
    monkeypatch.delenv("LEARN_BUILD_DIR", raising=False)
    where = {"metadata": {"path": tmp_path}}
    nbclient.NotebookClient(NOTEBOOK, timeout=900, resources=where).execute()
    texts = [
        "".join(out.get("text", out.get("data", {}).get("text/html", "")) for out in cell.outputs) for cell in PROGRAMS
    ]
    assert "verified: " in texts[1] and "315/315" in texts[2] and "no GPU" in texts[4]
    assert "ended with the same parameters" in texts[3] and "Two steps, rank by rank" in texts[3]
