"""Packs the policies of a finished run into the package, as the trained agent of its file.

An agent is one checkpoint, ``agents/TRAINER/WORLD/STEP``: the policies as safetensors, without critics, optimizers and
the state of the environment, the configuration of the run, what its agents see and do, and its score.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from rlcore import (
    KeyPath,
    Plugins,
    RunStateError,
    SavedRun,
    apply_overrides,
    dotted,
    load_checkpoint,
    load_config,
    load_plugins,
    read_document,
    save_checkpoint,
)
from rlcore_zoo.collection import AGENTS, path_of
from rlcore_zoo.entries import WITHOUT_EFFECT
from rlcore_zoo.hub.contents import private_values

_OF_THE_RUN = ("checkpoint_settings", "env_settings", "plugins", "debug")  # blocks that may differ from the file's
_ABOUT = ("seed", "factories", "steps", "specs")  # what policies need of a checkpoint's entry of the run


def pack(run: Path, name: str, score: float, fingerprint: str | None, agents: Path = AGENTS) -> Path:
    """Write the policies of ``run``, which trained the zoo's file ``name``, to ``agents``; return the checkpoint.

    It replaces an earlier agent of the file. Equal runs give equal files. ``score`` is what the policies were measured
    at, and ``fingerprint`` that of the entry. Raises RunStateError for a run that is not done, and for one whose
    configuration is not that of the file.
    """
    _require_done(run)
    plugins = load_plugins()
    differences = list(configuration_differences(run, name, plugins))
    if differences:
        raise RunStateError(f"{run}: was not trained with zoo:{name} as it is: {'; '.join(differences[:5])}")
    configuration = (run / "configuration.yaml").read_text(encoding="utf-8")
    private = list(private_values(read_document(run / "configuration.yaml").data))
    if private:
        raise RunStateError(
            f"{run}: its configuration names places of this machine: {'; '.join(private)}; train with the relative "
            "--results-dir results"
        )
    saved = SavedRun.open(run)
    state: dict[str, Any] = {"run": _about(saved.checkpoint, score, fingerprint)}
    for behavior, policy in saved.policies().items():
        weights = getattr(policy, "state_dict", None)
        state[behavior] = {"model": saved.models[behavior] if weights is None else weights()}
    place = agents / name
    building = place.with_name(f"{place.name}.new")
    shutil.rmtree(building, ignore_errors=True)
    step = save_checkpoint(building, saved.step, state, configuration).name
    shutil.rmtree(place, ignore_errors=True)
    building.rename(place)
    return place / step


def _about(checkpoint: Path, score: float, fingerprint: str | None) -> dict[str, Any]:
    entry = load_checkpoint(checkpoint)["run"]
    return {**{key: entry[key] for key in _ABOUT}, "score": score, "fingerprint": fingerprint}


def _require_done(run: Path) -> None:
    result = run / "result.json"
    outcome = json.loads(result.read_text(encoding="utf-8"))["outcome"] if result.is_file() else "not finished"
    if outcome != "done":
        raise RunStateError(f"{run}: is {outcome}; resume it before it is packed")


def configuration_differences(run: Path, name: str, plugins: Plugins) -> Iterator[str]:
    """Yield each key in which the configuration of ``run`` differs from what the file ``name`` resolves to.

    The name, the seed and the plugins of a run are its own, and so is how often it saves: where an environment cannot
    save its state, that depends on the speed of the machine.
    """
    document = apply_overrides(read_document(path_of(name)), ["checkpoint_settings.run_id=any"])
    expected = attrs.asdict(load_config(document, plugins))
    found = attrs.asdict(load_config(read_document(run / "configuration.yaml"), plugins, measuring=True))
    for block in _OF_THE_RUN:
        del expected[block], found[block]
    yield from _differences(expected, found, ())


def _differences(expected: Any, found: Any, path: KeyPath) -> Iterator[str]:
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for key in {**expected, **found}:
            if key not in WITHOUT_EFFECT:
                yield from _differences(expected.get(key), found.get(key), (*path, key))
    elif expected != found:
        yield f"{dotted(path)} is {found!r} instead of {expected!r}"
