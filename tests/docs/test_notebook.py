"""The notebook that is made of the quickstart page: its cells, and that it runs from top to bottom."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from notebooks import NOTEBOOKS, notebook, notebook_of
from workspace import ROOT

pytestmark = pytest.mark.documentation

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")


def test_blocks_of_python_are_cells_of_code_and_links_within_the_site_are_text() -> None:
    text = "# A\n\n[b](../b.md) and [c](https://c.example)\n\n"
    page = f"{text}```python\nx = 1\n\ny = 2\n```\n\n```sh\nls\n```\n\n```python\nx\n```\n"
    made = json.loads(notebook(page))
    assert [(cell["cell_type"], "".join(cell["source"])) for cell in made["cells"]] == [
        ("markdown", "# A\n\nb and [c](https://c.example)"),
        ("code", "x = 1\n\ny = 2"),
        ("markdown", "```sh\nls\n```"),
        ("code", "x"),
    ]
    assert [cell["outputs"] for cell in made["cells"] if cell["cell_type"] == "code"] == [[], []]
    assert notebook(page) == notebook(page)


def test_the_command_of_the_page_writes_the_notebook_and_replaces_none(tmp_path: Path) -> None:
    (page,) = NOTEBOOKS.values()
    command = [sys.executable, str(ROOT / "docs/notebooks.py"), str(ROOT / "docs" / page)]
    written = tmp_path / "quickstart.ipynb"
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 0
    assert written.read_text("utf-8") == notebook((ROOT / "docs" / page).read_text("utf-8"))
    written.write_text("mine", "utf-8")
    assert subprocess.run(command, cwd=tmp_path, stderr=subprocess.DEVNULL, check=False).returncode != 0
    assert written.read_text("utf-8") == "mine"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_linked_from_its_page_and_runs(name: str, tmp_path: Path) -> None:
    page = ROOT / "docs" / NOTEBOOKS[name]
    assert f"]({Path(name).name})" in page.read_text("utf-8")
    cells = nbformat.reads(notebook_of(name), as_version=4)
    executed = nbclient.NotebookClient(cells, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in executed.cells if cell.cell_type == "code" for output in cell.outputs]
    printed = "".join(output.text for output in outputs if output.output_type == "stream")
    returns = [float(number) for number in re.findall(r"mean return +(-?[\d.]+)", printed)]
    assert returns[0] < 100 < max(returns), "it learns"
    assert re.search(r"40,\d{3} agent steps", printed), "the second training continues the first"
    assert re.search(r"^\[\[[01]\]\]$", printed, re.MULTILINE), "an action"
    assert any("<video" in output.get("data", {}).get("text/html", "") for output in outputs)
