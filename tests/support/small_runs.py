"""The configuration of a small training, with changes; and other data of tests."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

DATA = Path(__file__).parents[1] / "data"


def data(name: str) -> Any:
    """The content of ``tests/data/NAME.yaml``."""
    return yaml.safe_load((DATA / f"{name}.yaml").read_text(encoding="utf-8"))


def small_run(results: Path | None, changes: Mapping[str, Any] | None = None, **start: Any) -> dict[str, Any]:
    """PPO on CartPole for 1000 steps with one behavior, ``Agent``.

    ``changes`` are values by dotted keys, such as ``behaviors.Agent.max_steps``; None removes a key. ``start`` are keys
    of ``checkpoint_settings``.
    """
    config: dict[str, Any] = data("small_training")
    config["checkpoint_settings"] |= start if results is None else {"results_dir": str(results), **start}
    for dotted, value in (changes or {}).items():
        *way, last = dotted.split(".")
        place = config
        for key in way:
            place = place.setdefault(key, {})
        place.pop(last, None)
        if value is not None:
            # Later keys may change what an earlier one brought, and callers use their mappings again.
            place[last] = copy.deepcopy(value)
    return config
