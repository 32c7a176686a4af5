"""Runs whose environments are in workers: saved environments, what is refused, what workers load."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rlcore import (
    Actions,
    ConfigError,
    EnvSettings,
    EpisodeSeeds,
    PluginError,
    SavesState,
    document_from_mapping,
    load_config,
    load_plugins_for,
)
from rlcore.run.environments import make_environment
from rlcore.run.prepare import run_context
from rlcore_workers import WorkerFailed
from rlcore_workers.alone import LONGEST, MEASURED, SKIPPED, StepsAlone
from rlcore_workers.supervisor import Restarts

REFUSALS = yaml.safe_load((Path(__file__).parent / "data/refusals.yaml").read_text("utf-8"))


def make(path: Path, workers: Any, name: str = "corridor", num_envs: int = 5, **blocks: Any) -> Any:
    context = context_of(path, workers, "rlcore_devkit.hooks", name=name, num_envs=num_envs, **blocks)
    return make_environment(context.config, context.plugins, context)


def context_of(path: Path, workers: Any, *local: str, name: str = "corridor", num_envs: int = 5, **blocks: Any) -> Any:
    data = {
        "plugins": {"local": list(local)},
        "environment": {"type": "testing", "id": name, "num_envs": num_envs, "workers": workers},
        "env_settings": {"seed": 4},
        "behaviors": {"A": {}},
        **blocks,
    }
    document = document_from_mapping(data)
    plugins = load_plugins_for(document)
    config = load_config(document, plugins)
    return run_context(config, plugins, path, path)


def play(environment: Any, steps: int, seed: int = 0) -> list[Any]:
    random = np.random.default_rng(seed)
    seen = []
    for _ in range(steps):
        batch = environment.step({"A": Actions(None, random.integers(0, 2, (environment.num_envs, 1)))})["A"]
        seen.append((batch.observations["position"].tolist(), batch.reward.tolist(), environment.episodes.tolist()))
    return seen


def test_environments_that_save_themselves_continue_in_other_processes(tmp_path: Path) -> None:
    first = make(tmp_path, 2)
    second = make(tmp_path, 2)
    try:
        assert isinstance(first, SavesState)
        first.reset(EpisodeSeeds(4), np.zeros(5, np.int64))
        play(first, 7)
        state = first.state_dict()
        batch = second.load_state_dict(state)["A"]
        assert batch.observations["position"].shape == (5, 6)
        assert play(first, 30, seed=1) == play(second, 30, seed=1)
        # A worker that was lost when the state was saved begins its next episodes, in the next step.
        state["workers"]["1"] = None
        second.load_state_dict(state)
        batch = second.step({"A": Actions(None, np.zeros((5, 1), np.int64))})["A"]
        assert batch.aborted is not None and batch.aborted.tolist() == [False] * 3 + [True] * 2
    finally:
        first.close()
        second.close()


@pytest.mark.filterwarnings("error::ResourceWarning")  # of a socket that is left open
def test_a_mistake_is_reported_as_in_one_process(tmp_path: Path) -> None:
    messages = []
    for workers in (None, 2):
        with pytest.raises(ConfigError) as refused:
            make(tmp_path, workers, "corridors")
        messages.append((str(refused.value), refused.value.key))
    assert messages[0] == messages[1]


class OfTwoArguments(ConfigError):
    """An error that can be pickled, but not unpickled."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"{what}: {where}")


def test_an_error_that_the_run_could_not_unpickle_is_sent_as_text() -> None:
    sent = pickle.loads(pickle.dumps(WorkerFailed.of(OfTwoArguments("level", "no 7"))))
    assert str(sent) == "level: no 7" and sent.raised is None and "OfTwoArguments" in sent.details


def test_plugins_that_take_part_in_workers_are_noted_and_required_as_in_one_process(tmp_path: Path) -> None:
    local = tmp_path / "around.py"
    local.write_text(
        "from rlcore import hookimpl\n\n@hookimpl(wrapper=True)\ndef rlcore_create_environment():\n    return (yield)\n"
    )
    entries = []
    refused = []
    for workers in (None, 2):
        with_plugin = context_of(tmp_path, workers, "rlcore_devkit.hooks", str(local))
        make_environment(with_plugin.config, with_plugin.plugins, with_plugin).close()
        entries.append(with_plugin.factories.to_json())
        without = context_of(tmp_path, workers, "rlcore_devkit.hooks")
        without.factories.require({"factories": entries[-1]})
        with pytest.raises(PluginError) as error:
            make_environment(without.config, without.plugins, without)
        refused.append(str(error.value))
    assert entries[0] == entries[1]
    assert [(entry["hook"], entry["name"]) for entry in entries[0]] == [("rlcore_create_environment", "around")]
    assert refused[0] == refused[1] and refused[0].startswith("plugin 'around' (local) took part in")


@pytest.mark.parametrize(("blocks", "message"), REFUSALS)
def test_what_cannot_be_run_is_refused(tmp_path: Path, blocks: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make(tmp_path, **blocks)
    assert message in str(refused.value)


def test_restarts_are_limited_in_a_period_and_in_a_lifetime(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("rlcore_workers.supervisor.monotonic", lambda: clock[0])
    limits = EnvSettings(max_lifetime_restarts=3, restarts_rate_limit_n=2, restarts_rate_limit_period_s=60)
    restarts = Restarts()
    refused = []
    for clock[0] in (0.0, 10.0, 20.0, 71.0, 200.0):
        refused.append(restarts.refused(limits))
        if refused[-1] is None:
            restarts.add()
    assert [None if each is None else each.split()[0] for each in refused] == [
        None,
        None,
        "env_settings.restarts_rate_limit_n",
        None,
        "env_settings.max_lifetime_restarts",
    ]
    unlimited = EnvSettings(max_lifetime_restarts=-1, restarts_rate_limit_n=-1)
    assert restarts.refused(unlimited) is None


# ---------------------------------------------------------------- steps one after the other


def test_some_of_the_first_steps_are_made_by_one_worker_after_the_other_and_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = make(tmp_path, None)
    environment = make(tmp_path, 2)
    sent: list[list[int]] = []
    send = environment._supervisor.send

    def counted(parts: list[int], arguments: Any = None) -> None:
        sent.append(list(parts))
        send(parts, arguments)

    monkeypatch.setattr(environment._supervisor, "send", counted)
    try:
        for each in (plain, environment):
            each.reset(EpisodeSeeds(4), np.zeros(5, np.int64))
        assert play(plain, 130) == play(environment, 130)
        assert sent.count([0]) == sent.count([1]) == MEASURED
        assert sent[:SKIPPED] == sent[-20:-10] == [[0, 1]] * 10
        assert environment.stats()["Performance/Seconds of Steps in Workers"] <= environment.busy_seconds
    finally:
        environment.close()


@pytest.mark.parametrize(
    ("together", "alone", "share"), [(3e-3, 2e-3, 2 / 3), (2e-3, 3e-3, 1.0), (2 * LONGEST, 1e-3, 1.0)]
)
def test_the_share_is_that_of_steps_one_after_the_other_unless_they_take_long(
    together: float, alone: float, share: float
) -> None:
    steps = StepsAlone()
    busy = 0.0
    while steps.due:
        busy += alone if steps.is_next(busy) else together
    assert steps.share == pytest.approx(share)


def test_unknown_seconds_choose_no_step() -> None:
    steps = StepsAlone()
    assert not any(steps.is_next(0.0) for _ in range(200))
    assert steps.share == 1.0
