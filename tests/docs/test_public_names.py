"""Public names and signatures are those of a recorded list, so that no commit moves one unseen."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path

import pytest
from public_names import public_names

pytestmark = [pytest.mark.documentation, pytest.mark.daily]

RECORDED = Path(__file__).parent / "data/public_names.txt"
COMMAND = f"python docs/generate.py public-names > tests/docs/data/{RECORDED.name}"


def test_public_names_and_signatures_are_those_that_were_recorded() -> None:
    """A name that moves needs a new contract; a name that is added, or an argument with a default, needs none."""
    recorded = RECORDED.read_text(encoding="utf-8").splitlines()
    changes = list(unified_diff(recorded, public_names(), "recorded", "now", lineterm="", n=0))
    shown = "\n".join(line for line in changes if not line.startswith("@@"))
    assert not changes, (
        f"public names or signatures changed:\n{shown}\n"
        "A line with - that has no successor breaks plugins: raise the contract, as CONTRIBUTING.md says. If all is "
        f"meant, record it: {COMMAND}"
    )
