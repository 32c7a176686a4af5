"""Critics that read what the policy does not see (``critic_observations``), in PPO and in SAC."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml

from rlcore import (
    ConfigError,
    ConfigErrors,
    EpisodeSeeds,
    Run,
    SavedRun,
    config_from_mapping,
    export_policies,
    load_plugins,
    load_policies,
)
from rlcore.cli.main import main

TRAINERS: dict[str, dict[str, Any]] = {
    "ppo": {"batch_size": 64, "buffer_size": 256, "learning_rate": 3e-3},
    "sac": {"batch_size": 32, "buffer_init_steps": 64, "steps_per_update": 8, "save_replay_buffer": True},
}
both = pytest.mark.parametrize("trainer", TRAINERS)


def bits(directory: Path, trainer: str, *privileged: str, steps: int = 512, **more: Any) -> Run:
    """A training in ``hidden_bits:Bits-v0``; ``more`` are keys of the document, or of blocks in it."""
    network = {"hidden_units": 16, "num_layers": 1, "normalize": True, "critic_observations": list(privileged)}
    network |= {key: more.pop(key) for key in ("memory",) if key in more}
    options = more.pop("options", {})
    hyperparameters = TRAINERS[trainer] | more.pop("hyperparameters", {})
    document = {
        "preset": "none",
        "environment": {"type": "gymnasium", "id": "hidden_bits:Bits-v0", "num_envs": 4, "options": options},
        "env_settings": {"seed": 3},
        "behaviors": {
            "Agent": {
                "trainer_type": trainer,
                "hyperparameters": hyperparameters,
                "network_settings": network,
                "max_steps": steps,
                "summary_freq": 256,
                "checkpoint_interval": 256,
                "keep_checkpoints": 0,
            }
        },
        "checkpoint_settings": {"run_id": "run", "results_dir": str(directory), **more.pop("start", {})},
        "stats": {"console": False},
    }
    return Run({**document, **more})


def trained(directory: Path, trainer: str, *privileged: str, **more: Any) -> Any:
    """The trainer after a training."""
    with bits(directory, trainer, *privileged, **more) as run:
        run.train()
        return run.behaviors["Agent"].trainer


def explained(directory: Path) -> float:
    lines = [yaml.safe_load(line) for line in (directory / "run/metrics.jsonl").read_text().splitlines()]
    return float(lines[-1]["stats"]["Losses/Explained Variance"])


def test_a_critic_that_sees_the_hidden_bit_explains_what_another_cannot(tmp_path: Path) -> None:
    fast = {"num_epoch": 10, "learning_rate": 0.01, "learning_rate_schedule": "constant"}
    trained(tmp_path / "blind", "ppo", steps=1024, hyperparameters=fast, options={"with_state": False})
    trained(tmp_path / "seeing", "ppo", "state", steps=1024, hyperparameters=fast)
    assert explained(tmp_path / "blind") < 0.3 < 0.7 < explained(tmp_path / "seeing")


def test_a_central_critic_explains_what_depends_on_a_mate(tmp_path: Path) -> None:
    """MAPPO by configuration. Whether two bits are equal is not a sum of what each of them says."""
    fast = {"num_epoch": 20, "learning_rate": 0.01, "learning_rate_schedule": "constant"}
    game = {"type": "pettingzoo", "id": "hidden_bits:mates", "num_envs": 4}
    for state in (None, "agents"):
        environment = {**game, "options": {"state": state}}
        privileged = [] if state is None else ["state"]
        trained(tmp_path / f"{state}", "ppo", *privileged, steps=1024, hyperparameters=fast, environment=environment)
    assert explained(tmp_path / "None") < 0.3 < 0.7 < explained(tmp_path / "agents")
    policy: Any = load_policies(tmp_path / "agents/run")["Agent"]
    assert policy.act({"observation": np.zeros((2, 1), np.float32)}).discrete.shape == (2, 1)


@both
def test_a_policy_acts_without_the_observations_of_its_critic(tmp_path: Path, trainer: str) -> None:
    """Loaded alone, exported, and evaluated where these observations do not exist."""
    trained(tmp_path, trainer, "state")
    policy: Any = load_policies(tmp_path / "run")["Agent"]
    seen = np.random.default_rng(1).uniform(-1, 1, (20, 2)).astype(np.float32)
    alone = policy.act({"seen": seen}).discrete
    for state in (0.0, 1.0):
        both_parts = {"seen": seen, "state": np.full((20, 1), state, np.float32)}
        np.testing.assert_array_equal(policy.act(both_parts).discrete, alone)
    with pytest.raises(ValueError, match="observation 'seen' is missing"):
        policy.act({})
    (path,) = export_policies(tmp_path / "run", "onnx", tmp_path / "agent.onnx").values()
    assert [each.name for each in onnx.load(path).graph.input if "obs" in each.name or "seen" in each.name] != []
    assert all("state" not in each.name for each in onnx.load(path).graph.input)
    words = ["evaluate", str(tmp_path / "run"), "--episodes", "3"]
    assert main([*words, "--set", "environment.options.with_state=false"]) == 0


@both
def test_a_run_may_evaluate_where_the_observations_of_critics_do_not_exist(tmp_path: Path, trainer: str) -> None:
    block = {"interval": 256, "episodes": 2, "environment": {"options": {"with_state": False}}}
    with bits(tmp_path, trainer, "state", evaluation=block) as run:
        assert [epoch.evaluation is not None for epoch in run] == [True, True]


@both
def test_a_program_may_play_where_the_observations_of_critics_do_not_exist(tmp_path: Path, trainer: str) -> None:
    trained(tmp_path, trainer, "state")
    elsewhere = yaml.safe_load((tmp_path / "run/configuration.yaml").read_text(encoding="utf-8"))
    elsewhere["environment"]["options"] = {"with_state": False}
    plugins = load_plugins()
    saved = SavedRun.load(tmp_path / "run", config_from_mapping(elsewhere, plugins), plugins)
    with saved.environment(2) as environment:
        policy = saved.policies(environment.behaviors)["Agent"]
        batch = environment.reset(EpisodeSeeds(1), np.zeros(2, np.int64))["Agent"]
        assert set(batch.observations) == {"seen"}
        actions: Any = policy.act(batch.observations, None, True).discrete
    assert actions.shape == (2, 1)


def test_a_program_may_not_play_without_what_the_policy_reads(tmp_path: Path) -> None:
    trained(tmp_path, "ppo", "seen")
    elsewhere = yaml.safe_load((tmp_path / "run/configuration.yaml").read_text(encoding="utf-8"))
    elsewhere["environment"]["options"] = {"with_state": False}
    plugins = load_plugins()
    saved = SavedRun.load(tmp_path / "run", config_from_mapping(elsewhere, plugins), plugins)
    with pytest.raises(ConfigError, match="observation 'state' is not there"), saved.environment(2):
        pass


def test_an_environment_without_what_the_policy_reads_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(tmp_path, "ppo", "seen")
    words = ["evaluate", str(tmp_path / "run"), "--episodes", "3", "--set", "environment.options.with_state=false"]
    assert main(words) == 2
    assert "observation 'state' is not there instead of [1] real numbers, which the policy learned" in (
        capsys.readouterr().err.replace("\n", " ")
    )


@both
def test_each_part_is_normalized_with_its_own_statistics(tmp_path: Path, trainer: str) -> None:
    """The policy's are what they are without a privileged critic: the same first observations are in them."""
    models = []
    for name, privileged in (("with", ["state"]), ("without", [])):
        with bits(tmp_path / name, trainer, *privileged) as run:
            run.start()
            models.append(run.behaviors["Agent"].trainer.state_dict()["model"])
    one, two = models
    np.testing.assert_array_equal(one["inputs.normalizer.mean"], two["inputs.normalizer.mean"][:2])
    np.testing.assert_array_equal(one["privileged.normalizer.mean"], two["inputs.normalizer.mean"][2:])


@pytest.mark.parametrize(("trainer", "networks"), [("ppo", 2), ("sac", 3)])
def test_a_policy_with_memory_may_have_a_privileged_critic(tmp_path: Path, trainer: str, networks: int) -> None:
    memory = {"memory_size": 8, "sequence_length": 4}
    made = trained(tmp_path, trainer, "state", memory=memory)
    assert made.memory.shape == (4, 8 * networks)
    policy: Any = load_policies(tmp_path / "run")["Agent"]
    assert policy.act({"seen": np.zeros((2, 2), np.float32)}).discrete.shape == (2, 1)


@pytest.mark.parametrize(
    ("privileged", "more", "message"),
    [
        (["stat"], {}, "agents observe seen, state, and not 'stat'; did you mean 'state'?"),
        (["seen", "state"], {}, "has all that agents observe (seen, state); leave one for the policy"),
    ],
)
def test_observations_that_do_not_fit_are_refused(
    tmp_path: Path, privileged: list[str], more: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        bits(tmp_path, "ppo", *privileged).start()
    assert message in str(refused.value)
    assert "behaviors.Agent.network_settings.critic_observations" in str(refused.value)


def test_a_shared_network_and_trainers_without_such_a_critic_are_refused(tmp_path: Path) -> None:
    behavior = {
        "trainer_type": "ppo",
        "hyperparameters": {"shared_critic": True},
        "network_settings": {"critic_observations": ["state"]},
    }
    environment = {"type": "gymnasium", "id": "hidden_bits:Bits-v0"}
    with pytest.raises(ConfigErrors, match="shared_critic has one network for both"):
        Run({"preset": "none", "environment": environment, "behaviors": {"Agent": behavior}})
    other = {**behavior, "trainer_type": "td3", "hyperparameters": {}}
    with pytest.raises(ConfigErrors, match=r"trainer 'td3' has no critic that reads more than its policy.*ppo or sac"):
        Run({"preset": "none", "environment": environment, "behaviors": {"Agent": other}})
