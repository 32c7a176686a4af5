"""Trials step their environments on Ray as every run does."""

from __future__ import annotations

from pathlib import Path

import pytest
from sweeps import Place, configuration


@pytest.mark.distributed
@pytest.mark.long
def test_trials_with_workers_on_ray_equal_those_in_one_process(place: Place, tmp_path: Path) -> None:
    document = configuration({"trials": 1})
    alone = Place(tmp_path / "alone")
    alone.directory.mkdir()
    alone.write(document)
    alone.sweep()
    document["environment"]["workers"] = {"executor": "ray", "count": 2}
    document["plugins"]["enable"] += ["ray", "workers"]
    place.write(document)
    place.sweep()
    assert place.trial(0) == alone.trial(0)
