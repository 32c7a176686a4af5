"""Makes notebooks of pages: ``python docs/notebooks.py docs/tutorial/quickstart.md`` writes ``quickstart.ipynb``.

The file is written in the current directory; a file of that name that is there already is not replaced.

A block of Python becomes a cell of code, and everything between two such blocks a cell of text. The site's build adds
the notebooks of NOTEBOOKS, so the repository contains none.
"""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Mapping
from pathlib import Path

DOCS = Path(__file__).resolve().parent
FENCE = re.compile(r"^```python\n(.*?)^```$\n?", re.DOTALL | re.MULTILINE)
RELATIVE_LINK = re.compile(r"\[([^\]]+)\]\((?!\w+:)[^)]*\)")  # leads nowhere from a downloaded file

NOTEBOOKS: Mapping[str, str] = types.MappingProxyType({"tutorial/quickstart.ipynb": "tutorial/quickstart.md"})
"""Pages in docs/ by the notebooks that are made of them."""


def notebook(markdown: str) -> str:
    """Return the notebook of a page as JSON, without outputs; equal pages give equal notebooks."""
    import nbformat
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

    cells = []
    for number, part in enumerate(FENCE.split(markdown)):
        source = part.strip() if number % 2 else RELATIVE_LINK.sub(r"\1", part).strip()
        if source:
            make = new_code_cell if number % 2 else new_markdown_cell
            cells.append(make(source, id=f"cell-{len(cells)}"))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    found = new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.validate(found)
    return str(nbformat.writes(found))


def notebook_of(name: str) -> str:
    """Return the notebook called ``name`` in NOTEBOOKS."""
    return notebook((DOCS / NOTEBOOKS[name]).read_text("utf-8"))


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:]):
        written = Path(page.with_suffix(".ipynb").name)
        with written.open("x", encoding="utf-8") as file:
            file.write(notebook(page.read_text("utf-8")))
        print(written)
