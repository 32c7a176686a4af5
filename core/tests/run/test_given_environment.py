"""``Run(config, environment=...)``: environments of a Python program, without any library of environments."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rlcore import EnvironmentSpec, hookimpl
from rlcore.config.plugins_block import load_plugins_for
from rlcore.config.reading import document_from_mapping
from rlcore.errors import ConfigError, EnvironmentFailed
from rlcore.run.run import Run
from rlcore_devkit.environments import TinyCorridor
from rlcore_devkit.fixtures import RunRlcore


class Corridor(TinyCorridor):
    """Two corridors that count how often they are closed."""

    def __init__(self) -> None:
        super().__init__(2, "Agent", length=6)
        self.closed = 0

    def close(self) -> None:
        self.closed += 1
        super().close()


class Maker:
    """Makes corridors, and keeps them."""

    def __init__(self) -> None:
        self.made: list[Corridor] = []

    def __call__(self) -> Corridor:
        self.made.append(Corridor())
        return self.made[-1]


@pytest.fixture
def config(configure: Any) -> dict[str, Any]:
    document: dict[str, Any] = configure()
    document["environment"] = {"num_envs": 2}
    return document


def test_a_run_in_a_given_environment_equals_one_in_the_same_environment_by_its_name(
    config: Any, make_run: Any, files: Any
) -> None:
    make_run({"checkpoint_settings.run_id": "named", "environment.options": {"length": 6}}).train()
    Run(config, environment=Corridor).train()
    assert files("run").checkpoint(200)["Agent.safetensors"] == files("named").checkpoint(200)["Agent.safetensors"]


def test_what_the_function_made_is_closed_and_an_object_stays_open(config: Any) -> None:
    maker = Maker()
    own = Corridor()
    config["evaluation"] = {"interval": 100, "episodes": 2}
    Run(config, environment=maker).train()
    assert [each.closed for each in maker.made] == [1, 1]  # one to train in, one to evaluate in
    del config["evaluation"]
    config["checkpoint_settings"]["force"] = True
    for steps in (60, 120):
        config["behaviors"]["Agent"]["max_steps"] = steps
        assert Run(config, environment=own).train()["Agent"].steps == steps
    assert own.closed == 0


def test_an_environment_that_does_not_fit_is_closed_unless_it_is_an_object_of_the_program(config: Any) -> None:
    config["environment"]["num_envs"] = 3
    maker = Maker()
    own = Corridor()
    for given in (maker, own):
        with pytest.raises(EnvironmentFailed, match=r"made with num_envs 2 where run\.num_envs is 3"):
            Run(config, environment=given).start()
    assert maker.made[0].closed == 1 and own.closed == 0


def test_the_number_of_copies_is_that_of_an_object_that_has_one(config: Any) -> None:
    del config["environment"]
    with Run(config, environment=Corridor()) as run:
        run.start()
        assert run.config.num_envs == 2 and run.config.environment.type == "program"


def test_an_object_trains_but_does_not_evaluate(config: Any) -> None:
    with Run(config, environment=Corridor()) as run:
        run.start()
        with pytest.raises(ConfigError, match=r"environment: is one object, which training uses.*lambda: MyEnv"):
            run.evaluate(2)
    config["checkpoint_settings"]["force"] = True
    config["evaluation"] = {"interval": 100, "episodes": 2}
    with pytest.raises(ConfigError, match="is one object, which training uses"):
        Run(config, environment=Corridor()).start()
    config["evaluation"]["environment"] = {"type": "corridor", "options": {"length": 6}}
    with Run(config, environment=Corridor()) as run:
        run.train()
        assert run.scores.step == 200


def test_a_run_is_resumed_with_its_environment_bit_for_bit(config: Any, files: Any) -> None:
    config["behaviors"]["Agent"]["keep_checkpoints"] = 0
    Run(config, environment=Corridor).train()
    whole = files().checkpoint(200)
    config["checkpoint_settings"]["force"] = True
    with Run(config, environment=Corridor) as run:
        for epoch in run:
            if epoch.behaviors["Agent"].steps >= 100:
                break
    config["checkpoint_settings"] |= {"force": False, "resume": True}
    assert Run(config, environment=Corridor).train()["Agent"].steps == 200
    again = files().checkpoint(200)
    assert again["Agent.safetensors"] == whole["Agent.safetensors"]
    assert again["state.json"]["run"]["environment"] == whole["state.json"]["run"]["environment"]


def test_commands_say_that_a_program_gave_the_environment(config: Any, files: Any, run_rlcore: RunRlcore) -> None:
    Run(config, environment=Corridor).train()
    place = str(files().path)
    told = "environment: is given by a Python program, in Run(config, environment=...), and a file cannot make it"
    configuration = str(files().path / "configuration.yaml")
    again = ["--set", "checkpoint_settings.run_id=other"]
    for command in (["run", configuration, *again], ["evaluate", place], ["run", "--resume", configuration]):
        refused = run_rlcore(*command)
        assert refused.exit_code == 2 and told in refused.stderr
    assert run_rlcore("status", place).exit_code == 0
    named = ["--set", "environment.type=corridor", "--set", "environment.options.length=6"]
    assert run_rlcore("evaluate", place, "--episodes", "2", *named).exit_code == 0


class Simulator:
    """An environment of a company, which has another interface than rlcore's."""


def test_a_plugin_adapts_objects_of_its_own_kind(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def adapt(made: Any, settings: Any, run: Any) -> Any:
        asked.append((made, settings.type, run.purpose))
        return Corridor() if isinstance(made, Simulator) else None

    acme = ModuleType("acme_simulators")
    acme.adapt = adapt  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "acme_simulators", acme)

    class Plugin:
        @hookimpl
        def rlcore_environments(self) -> Any:
            return [EnvironmentSpec(name="acme", target="acme:make", adapter="acme_simulators:adapt")]

    loaded = load_plugins_for(document_from_mapping(config))
    loaded.register(Plugin(), "acme")
    simulator = Simulator()
    with Run(config, loaded, environment=simulator) as run:
        assert run.train()["Agent"].steps == 200
    assert asked == [(simulator, "program", "train")]
    config["checkpoint_settings"]["force"] = True
    with pytest.raises(ConfigError, match=r"a kind that a plugin knows \(rlcore\.Environment, acme\)"):
        Run(config, loaded, environment=object()).start()


class FailsAtOnce:
    def __init__(self) -> None:
        raise OSError("the port is in use")


@pytest.mark.parametrize(
    ("given", "changes", "told"),
    [
        (object(), {}, r"builtins\.object is not an environment of a kind that a plugin knows \(rlcore\.Environment\)"),
        (lambda: 7, {}, r"builtins\.int is not an environment of a kind"),
        (FailsAtOnce, {}, "the function failed: OSError: the port is in use"),
        (Corridor, {"type": "corridor"}, r"environment names \{'type': 'corridor'\}, and Run.* gives another one"),
        (Corridor, {"id": "Maze"}, r"environment names \{'id': 'Maze'\}"),
    ],
)
def test_what_is_wrong_with_a_given_environment_is_told(config: Any, given: Any, changes: Any, told: str) -> None:
    config["environment"] |= changes
    with pytest.raises((ConfigError, EnvironmentFailed), match=told):
        Run(config, environment=given).start()


def test_an_environment_in_the_configuration_is_answered_with_the_argument(config: Any) -> None:
    for wrong in (Corridor(), {**config, "environment": Corridor()}):
        with pytest.raises(ConfigError, match=r"beside the configuration: Run\(config, environment=\.\.\.\)"):
            Run(wrong)


def test_a_complete_configuration_takes_an_environment_too(config: Any, tmp_path: Path) -> None:
    with Run(config, environment=Corridor) as first:
        complete = first.config
        first.train()
    again = Run(complete, first.plugins, environment=Corridor)
    assert again.config.environment == complete.environment
