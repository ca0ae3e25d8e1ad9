"""The notebooks of examples/ run from their first cell to their last."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "notebooks"


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="comes with the extra docs")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "kept without outputs"
    nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}).execute()
    last = [cell for cell in notebook.cells if cell.cell_type == "code"][-1]
    assert last.outputs, "the last cell shows an answer"
