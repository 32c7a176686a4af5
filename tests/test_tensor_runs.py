"""PPO and PQN in a tensor environment: whatever it acts with; what it reports and refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from compared_runs import checkpoints, state_at, summaries
from small_runs import small_run
from tensor_carts import ContinuousCart, MaskedCart
from tensor_race import TensorRace, ThroughNumpy

from rlcore import ConfigError, EnvironmentFailed, NonFiniteError, Run
from rlcore_devkit import TensorEnvironmentConformance
from rlcore_devkit.conformance.states import assert_equal
from rlcore_torch import NetworkSettings, TensorActions, TensorBatch, UnsavedAsNumpy
from rlcore_torch.on_policy import collection
from rlcore_torch.on_policy.device_rollout import TurnsRollout
from rlcore_torch.policy.untrained import untrained_policy
from rlcore_torch.tensors.acting import SharedMemoryActor, TensorActor
from rlcore_torch.tensors.cartpole import TorchCartPole

STEPS = 700


Make = Callable[[], Any]


def configuration(
    place: Path, num_envs: int, steps: int = STEPS, behavior: str = "CartPole", **keys: Any
) -> dict[str, Any]:
    config = small_run(place, run_id=keys.pop("run_id", "run"), **keys.pop("checkpoint_settings", {}))
    config["environment"] = {"num_envs": num_envs}
    horizon = {"time_horizon": keys.pop("time_horizon")} if "time_horizon" in keys else {}
    trainer = keys.pop("trainer", "ppo")
    config["behaviors"] = {
        behavior: {
            "trainer_type": trainer,
            "max_steps": steps,
            "summary_freq": 300,
            "checkpoint_interval": 500,
            "keep_checkpoints": 9,
            "network_settings": {"hidden_units": 16, "normalize": True},
            "hyperparameters": {"batch_size": 64, "buffer_size": 256, **keys},
            **horizon,
        }
    }
    return config


def outcome(place: Path) -> dict[str, Any]:
    """Every checkpoint and summary of a run."""
    states = {step: state_at(place, step) for step in checkpoints(place)}
    assert states
    return {"states": states, "summaries": summaries(place)}


def on_device(run: Run) -> bool:
    (behavior,) = run.behaviors.values()
    return type(behavior.trainer.buffer).__name__ in ("TensorRollout", "TurnsRollout")  # type: ignore[attr-defined]


@pytest.mark.parametrize("trainer", ["ppo", "pqn"])
@pytest.mark.parametrize("make", [lambda: MaskedCart(130, max_steps=25), lambda: TensorRace(70)], ids=["cart", "turns"])
def test_acting_without_shared_memory_gives_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Make, trainer: str
) -> None:
    """On a CPU that is treated as a GPU; with more agents than a policy computes in NumPy."""
    (name,) = make().behaviors
    for place, shared in (("shared", True), ("apart", False)):
        monkeypatch.setattr(collection, "shares_memory", lambda device, shared=shared: shared)
        config = configuration(tmp_path / place, make().num_envs, behavior=name, trainer=trainer)
        with Run(config, environment=make) as run:
            run.train()
            assert on_device(run)
            assert type(run.behaviors[name].trainer._actor).__name__.startswith("Shared") == shared  # type: ignore[attr-defined]
    assert_equal(outcome(tmp_path / "shared"), outcome(tmp_path / "apart"))


def test_acting_without_shared_memory_draws_the_same_real_numbers() -> None:
    (spec,) = ContinuousCart(200).behaviors.values()
    policy = untrained_policy(spec, NetworkSettings(hidden_units=8, normalize=True), seed=1)
    generator = np.random.default_rng(0)
    seen = {"state": torch.from_numpy(generator.standard_normal((200, 4), np.float32))}
    noise = generator.standard_normal((200, 1), np.float32), np.empty((200, 0), np.float32)
    ours = SharedMemoryActor(policy)
    theirs = TensorActor(policy)
    expected = ours.actions(*ours.explore(ours.parameters(seen, None), noise)).continuous
    drawn = theirs.explore(theirs.parameters(seen, None), tuple(torch.from_numpy(each) for each in noise))
    actions = theirs.actions(*drawn).continuous
    assert expected is not None and actions is not None
    np.testing.assert_allclose(actions.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    assert 0.05 < float(((actions > -0.3) & (actions < 1.3)).float().mean()) < 0.95


@pytest.mark.learning
def test_tensors_give_the_weights_of_arrays_after_100_000_steps(tmp_path: Path) -> None:
    found = []
    for name, environment in (
        ("arrays", lambda: ThroughNumpy(TorchCartPole(64))),
        ("tensors", lambda: TorchCartPole(64)),
    ):
        config = configuration(tmp_path / name, 64, 100_000, buffer_size=2048, batch_size=256)
        config["behaviors"]["CartPole"] |= {"summary_freq": 50_000, "checkpoint_interval": 50_000}
        with Run(config, environment=environment) as run:
            results = run.train()
        found.append(outcome(tmp_path / name))
    assert_equal(found[0], found[1])
    assert (results["CartPole"].mean_reward or 0) > 60  # random actions reach 22


@pytest.mark.parametrize("make", [lambda: MaskedCart(20, max_steps=25), lambda: TensorRace(20)], ids=["cart", "turns"])
def test_a_trainer_that_explores_by_itself_learns_from_tensors_what_it_learns_from_arrays(
    tmp_path: Path, make: Make
) -> None:
    """PQN, whose targets also need the masks of final observations."""
    (name,) = make().behaviors
    found = []
    for place, environment in (("arrays", lambda: ThroughNumpy(make())), ("tensors", make)):
        config = configuration(tmp_path / place, make().num_envs, behavior=name, trainer="pqn", epsilon_steps=500)
        with Run(config, environment=environment) as run:
            run.train()
            assert on_device(run) == (place == "tensors")
        found.append(outcome(tmp_path / place))
    assert_equal(found[0], found[1])


class UnsavedArrays(UnsavedAsNumpy):
    """Gives arrays to every trainer, and cannot be saved."""

    def keep_batches(self, trainers: Sequence[Any]) -> bool:
        return False


def test_episodes_that_a_checkpoint_cuts_are_cut_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = TurnsRollout.begin
    cuts = []

    def begin_and_count(buffer: TurnsRollout, *arguments: Any) -> None:
        begin(buffer, *arguments)
        cuts.append(len(buffer.cut_rows()))

    monkeypatch.setattr(TurnsRollout, "begin", begin_and_count)
    found = []
    for kind in (UnsavedArrays, UnsavedAsNumpy):
        config = configuration(tmp_path / kind.__name__, 6, behavior="Racer")
        with Run(config, environment=lambda kind=kind: kind(TensorRace(6))) as run:
            run.train()
            assert on_device(run) == (kind is UnsavedAsNumpy)
        found.append(outcome(tmp_path / kind.__name__))
    assert_equal(found[0], found[1])
    assert cuts[0] == 0 and max(cuts) > 4


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"behaviors.CartPole.trainer_type": "dqn"}, "the trainer computes in NumPy"),
        ({"behaviors.CartPole.trainer_type": "poca"}, "POCATrainer.begin may expect arrays"),
        ({"behaviors.CartPole.network_settings.memory": {"memory_size": 16}}, "memory remembers arrays"),
        ({"behaviors.CartPole.reward_signals": {"extrinsic": {}, "rnd": {}}}, "the reward 'rnd' reads arrays"),
    ],
)
def test_what_takes_no_tensors_learns_from_arrays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, changes: dict[str, Any], reason: str
) -> None:
    config = small_run(tmp_path)
    block = {"trainer_type": "ppo", "max_steps": 120, "network_settings": {"hidden_units": 8}}
    config["behaviors"], config["environment"] = {"CartPole": block}, {"num_envs": 4}
    for dotted, value in changes.items():
        *way, last = dotted.split(".")
        place: Any = config
        for key in way:
            place = place.setdefault(key, {})
        place[last] = value
    with caplog.at_level("INFO"), Run(config, environment=lambda: TorchCartPole(4)) as run:
        assert run.train()["CartPole"].steps == 120
    assert any(reason in text for text in caplog.messages)


def test_a_value_that_is_not_finite_is_reported_with_its_place(tmp_path: Path) -> None:
    class Breaking(TorchCartPole):
        def step(self, actions: Mapping[str, TensorActions]) -> dict[str, TensorBatch]:
            batches = super().step(actions)
            if int(self._steps[2]) == 5:
                batches["CartPole"].observations["state"] = batches["CartPole"].observations["state"].clone()
                batches["CartPole"].observations["state"][2, 1] = torch.nan
            return batches

    message = (
        r"observation 'state' of slot 2 \(environment 2\) is NaN or infinite after step 5 of the 64 environment steps"
    )
    with pytest.raises(NonFiniteError, match=message):
        Run(configuration(tmp_path, 4), environment=lambda: Breaking(4)).train()


@pytest.mark.parametrize(("game", "behavior"), [(TorchCartPole, "CartPole"), (TensorRace, "Racer")])
def test_an_end_without_final_observations_is_reported_before_it_is_learned_from(
    tmp_path: Path, game: Any, behavior: str
) -> None:
    class WithoutFinals(game):  # type: ignore[misc]
        def step(self, actions: Mapping[str, TensorActions]) -> dict[str, TensorBatch]:
            batches: dict[str, TensorBatch] = super().step(actions)
            batches[behavior].final_observations = None
            return batches

    message = r"an episode of slot \d \(environment \d\) ended in a batch whose final_observations are None"
    with pytest.raises(EnvironmentFailed, match=message):
        Run(configuration(tmp_path, 4, behavior=behavior), environment=lambda: WithoutFinals(4)).train()


def test_a_value_that_is_not_finite_is_reported_with_the_action_of_its_slot(tmp_path: Path) -> None:
    class Breaking(TensorRace):
        def step(self, actions: Mapping[str, TensorActions]) -> dict[str, TensorBatch]:
            batches = super().step(actions)
            batch = batches["Racer"]
            assert batch.needs_action is not None
            if bool(batch.needs_action[3]) and int(self._numbers[1]) == 2:
                batch.observations["field"][3, 0] = torch.inf
            return batches

    message = r"observation 'field' of slot 3 \(environment 1\) is NaN or infinite at action \d+ of its steps before"
    with pytest.raises(NonFiniteError, match=message):
        Run(configuration(tmp_path, 4, behavior="Racer"), environment=lambda: Breaking(4)).train()


class TestTensorRace(TensorEnvironmentConformance):
    steps = 40

    def make_tensors(self, num_envs: int) -> TensorRace:
        return TensorRace(num_envs)


def test_environment_parameters_are_refused(tmp_path: Path) -> None:
    config = configuration(tmp_path, 4)
    config["environment"]["type"] = "torch-cartpole"
    config["environment_parameters"] = {"length": 0.7}
    with pytest.raises(ConfigError, match="environment torch-cartpole has no such parameter; it has none"):
        Run(config).train()


def test_a_file_names_the_cart_pole_and_a_policy_is_evaluated(tmp_path: Path, run_rlcore: Any) -> None:
    config = configuration(tmp_path, 4)
    config["environment"] |= {"type": "torch-cartpole", "options": {"max_steps": 30}}
    config["evaluation"] = {"interval": 600, "episodes": 3}
    with Run(config) as run:
        run.train()
        assert on_device(run)
    shown = run_rlcore("evaluate", tmp_path / "run", "--episodes", "3")
    assert shown.exit_code == 0 and "over 3 episodes" in shown.stdout
