"""A resume with what does not fit the checkpoint is refused with the cause: nothing is loaded, nothing changes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from fault_cases import ATTACKED

pytestmark = pytest.mark.faults

SETTINGS = ATTACKED["lessons"] | {"max_steps": 1200}


def with_values(**values: Any) -> Callable[[Any], tuple[str, ...]]:
    """``--set`` of keys; two underscores stand for a dot."""

    def prepare(place: Any) -> tuple[str, ...]:
        return tuple(part for key, value in values.items() for part in ("--set", f"{key.replace('__', '.')}={value}"))

    return prepare


def configured(change: Callable[[dict[str, Any]], Any]) -> Callable[[Any], tuple[str, ...]]:
    """Another configuration file."""

    def prepare(place: Any) -> tuple[str, ...]:
        config = yaml.safe_load((place.path / "config.yaml").read_text())
        change(config)
        (place.path / "config.yaml").write_text(yaml.safe_dump(config))
        return ()

    return prepare


def in_manifests(**entries: Any) -> Callable[[Any], tuple[str, ...]]:
    """Other entries in the manifest of every checkpoint."""

    def prepare(place: Any) -> tuple[str, ...]:
        for step in place.steps:
            path = place.checkpoints / str(step) / "manifest.json"
            path.write_text(json.dumps(json.loads(path.read_text()) | entries))
        return ()

    return prepare


def another_game(config: dict[str, Any]) -> None:
    config["environment"]["id"] = "Acrobot-v1"
    del config["environment_parameters"]


NETWORK = "behaviors__Agent__network_settings__"
MISFITS: dict[str, tuple[Callable[[Any], tuple[str, ...]], int, str]] = {
    "a wider network": (with_values(**{f"{NETWORK}hidden_units": 17}), 5, r"in the checkpoint and .* in this run"),
    "a deeper network": (with_values(**{f"{NETWORK}num_layers": 2}), 5, "checkpoint"),
    "no normalizer": (with_values(**{f"{NETWORK}normalize": "false"}), 5, "checkpoint"),
    "a memory": (with_values(**{f"{NETWORK}memory": "{memory_size: 8, sequence_length: 8}"}), 5, "checkpoint"),
    "another trainer": (
        configured(lambda config: config["behaviors"]["Agent"].update(trainer_type="sac", hyperparameters={})),
        5,
        "checkpoint",
    ),
    "another observation": (
        configured(another_game),
        5,
        "checkpoint|learned",
    ),
    "more environments": (with_values(environment__num_envs=4), 5, "checkpoint is of 8 environments, this run has 4"),
    "another seed": (with_values(env_settings__seed=12), 2, "was started with seed 11, not 12"),
    "another behavior": (
        configured(lambda config: config.update(behaviors={"Other": config["behaviors"].pop("Agent")})), 2, "Agent",
    ),
    "no lessons": (
        configured(lambda config: config.pop("environment_parameters")), 5, "learned with environment_parameters",
    ),
    "a plugin that is left out": (with_values(plugins__disable="[ppo]"), 2, "turned off: plugin 'ppo'"),
    "a plugin that is gone": (with_values(plugins__local="[./gone.py]"), 4, "gone.py"),
    "a trainer of another name": (with_values(behaviors__Agent__trainer_type="ppo_2"), 2, "ppo_2.*ppo"),
    "an environment of another name": (with_values(environment__type="gymnasiun"), 2, "gymnasiun.*gymnasium"),
    "a newer format": (in_manifests(format_version=99), 5, "99.*newer|newer.*99"),
    "a format that never was": (in_manifests(format_version=0), 5, "no usable checkpoint"),
}  # fmt: skip


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
    prepare, code, said = MISFITS[name]
    whole, place = whole_run(**SETTINGS), workplace(**SETTINGS)
    place.copy_until(whole, 800)
    flags = prepare(place)
    before = files(place.run)
    assert place.finish("--resume", *flags) == code, place.stderr
    errors = [line for line in place.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and re.search(said, errors[0]), place.stderr
    assert "Traceback" not in place.stderr and files(place.run) == before
