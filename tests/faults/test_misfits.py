"""A resume with what does not fit the checkpoint is refused with the cause: nothing is loaded, nothing changes."""

from __future__ import annotations

import json
import operator
import re
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
import yaml
from fault_cases import ATTACKED

pytestmark = pytest.mark.faults

SETTINGS = ATTACKED["lessons"] | {"max_steps": 1200}


MISFITS = yaml.safe_load((Path(__file__).parent / "data/misfits.yaml").read_text())


def prepare(place: Any, case: dict[str, Any]) -> list[str]:
    """Change the configuration and the manifests of the checkpoints, and return the flags of the command."""
    path = place.path / "config.yaml"
    text = path.read_text()
    for old, new in case.get("text", {}).items():
        text = text.replace(old, new)
    config = yaml.safe_load(text)
    for dotted, value in case.get("config", {}).items():
        *way, last = dotted.split(".")
        block = reduce(operator.getitem, way, config)
        block.pop(last)
        block |= {} if value is None else {last: value}
    path.write_text(yaml.safe_dump(config))
    for step in place.steps if "manifests" in case else ():
        manifest = place.checkpoints / str(step) / "manifest.json"
        manifest.write_text(json.dumps(json.loads(manifest.read_text()) | case["manifests"]))
    return [word for key, value in case.get("set", {}).items() for word in ("--set", f"{key}={value}")]


def files(directory: Path) -> dict[str, bytes]:
    found = sorted(path for path in directory.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(directory)): path.read_bytes() for path in found}


QUICK = {"a wider network", "a plugin that is left out", "a newer format"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.deep]) for name in MISFITS]
)
def test_what_does_not_fit_a_checkpoint_is_refused_with_the_cause_and_changes_nothing(
    workplace: Any, whole_run: Any, name: str
) -> None:
    whole = whole_run(**SETTINGS)
    place = workplace(**SETTINGS)
    place.copy_until(whole, 800)
    flags = prepare(place, MISFITS[name])
    before = files(place.run)
    assert place.finish("--resume", *flags) == MISFITS[name]["code"], place.stderr
    errors = [line for line in place.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and re.search(MISFITS[name]["said"], errors[0]), place.stderr
    assert "Traceback" not in place.stderr and files(place.run) == before
