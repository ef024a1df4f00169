"""docs/course.ipynb, on a clone of the last commit, as a reader runs it."""

import pathlib
import shutil

import pytest
from programs import ROOT

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="the notebook would use this GPU")
def test_it_runs_and_stores_no_outputs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = nbformat.read(ROOT / "docs/course.ipynb", 4)
    nbformat.validate(notebook)
    programs = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell for cell in programs if cell.outputs or cell.execution_count] == []

    monkeypatch.setenv("COURSE", str(ROOT))
    monkeypatch.setenv("CXXFLAGS", "-Werror")  # no other test builds for the CPU alone
    monkeypatch.setenv("LEARN_PRESET", "cpu")
    monkeypatch.delenv("LEARN_BUILD_DIR", raising=False)
    where = {"metadata": {"path": tmp_path}}
    nbclient.NotebookClient(notebook, timeout=900, resources=where).execute()
    texts = [
        "".join(out.get("text", out.get("data", {}).get("text/html", "")) for out in cell.outputs) for cell in programs
    ]
    assert "verified: " in texts[1] and "315/315" in texts[2] and "no GPU" in texts[4]
    assert "ended with the same parameters" in texts[3] and "Two steps, rank by rank" in texts[3]
