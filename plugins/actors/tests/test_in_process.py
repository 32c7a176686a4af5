"""Actors in the process of the run, whose lag is chosen: what an update learns from is compared, step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlcore import ConfigError, ConfigErrors, Run, SavedRun, UnsupportedSpace
from rlcore_actors.trainer import APPOTrainer, IMPALATrainer
from rlcore_torch import Loss, Minibatch, Rollout

IN_PROCESS = {"count": 2, "in_process": True, "fragment": 8}
MakeRun = Callable[..., Run]


class Seen:
    """The data that updates of all trainers learned from, in order: rollouts, copies of their buffers, targets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.updates: list[dict[str, Any]] = []
        self.states: list[Mapping[str, Any]] = []  # of the policy before each update
        advantages = APPOTrainer.advantages

        def seen(trainer: APPOTrainer, rollout: Rollout, baseline: Any = None) -> Any:
            buffer = trainer.buffer
            rows = len(rollout.valid)
            self.states.append(trainer.policy.state_dict())
            result = advantages(trainer, rollout, baseline)
            update = {
                "rollout": rollout,
                "terminated": rollout.trajectories.terminated.copy(),  # of the buffer, which is written again
                "reward": buffer.reward[:rows].copy(),
                "version": buffer.version[:rows].copy(),
                "current": trainer.version,
                "seen": {name: array[:rows].copy() for name, array in buffer.seen.items()},
                "choices": buffer.choices[:rows].copy(),
                "log_prob": buffer.log_prob[:rows].copy(),
                "advantages": result[0].numpy().copy(),
                "targets": result[1].numpy().copy(),
                "trainer": trainer,
            }
            self.updates.append(update)
            return result

        monkeypatch.setattr(APPOTrainer, "advantages", seen)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    return Seen(monkeypatch)


def train(run: Run) -> dict[str, Any]:
    """Train to the end; return the means of the last summary by tag."""
    with run:
        for epoch in run:
            last = epoch.behaviors["Agent"]
    return {tag: summary.mean for tag, summary in last.stats.items()}


def test_without_lag_targets_are_n_step_returns_bit_for_bit(make_run: MakeRun, seen: Seen) -> None:
    run = make_run("corridor", IN_PROCESS, hyperparameters={"advantage_normalization": "none"}, time_horizon=8)
    train(run)
    assert len(seen.updates) == 10
    for update in seen.updates:
        rollout = update["rollout"]
        assert (update["version"][rollout.valid] == update["current"]).all()
        reward = update["reward"]
        gamma = np.float32(0.99)
        expected = np.zeros_like(reward)
        for slot in range(reward.shape[1]):
            following = np.float32(0.0)
            for row in reversed(np.flatnonzero(rollout.valid[:, slot]).tolist()):
                if update["terminated"][row, slot]:
                    following = np.float32(0.0)
                elif row + 1 == len(reward) or not rollout.trajectories.carry[row, slot]:
                    following = rollout.next_value[row, slot, 0]
                following = reward[row, slot] + gamma * following
                expected[row, slot] = following
        np.testing.assert_array_equal(update["targets"][..., 0], expected)
        assert rollout.valid.all()


@pytest.mark.parametrize("lag", [1, 3])
def test_actors_are_as_many_updates_behind_as_lag_says(make_run: MakeRun, seen: Seen, lag: int) -> None:
    stats = train(make_run("corridor", {**IN_PROCESS, "lag": lag}, network={"normalize": True}))
    assert stats["Policy/Version Lag"] == stats["Policy/Largest Version Lag"] == lag
    for number, update in enumerate(seen.updates):
        acted = max(0, number - lag)
        assert (update["version"][update["rollout"].valid] == acted).all()
        # The policy that acted, with its own statistics of observations, gives the probabilities that were sent.
        trainer = update["trainer"]
        policy = trainer.snapshot(seen.states[acted])
        observations = {name: array.reshape(-1, array.shape[-1]) for name, array in update["seen"].items()}
        _, logits = policy.parameters(observations, None)
        log_probs = torch.from_numpy(logits).log_softmax(1).numpy()
        drawn = log_probs[np.arange(len(log_probs)), update["choices"].reshape(-1)]
        np.testing.assert_allclose(update["log_prob"].reshape(-1), drawn, atol=1e-5)


def test_importance_weights_are_ratios_of_the_current_policy_to_the_one_that_acted(
    make_run: MakeRun, seen: Seen
) -> None:
    train(make_run("corridor", {**IN_PROCESS, "lag": 2}, hyperparameters={"learning_rate": 0.02}))
    update = seen.updates[-1]
    policy = update["trainer"].snapshot(seen.states[-1])
    observations = {name: array.reshape(-1, array.shape[-1]) for name, array in update["seen"].items()}
    _, logits = policy.parameters(observations, None)
    log_probs = torch.from_numpy(logits).log_softmax(1).numpy()
    current = log_probs[np.arange(len(log_probs)), update["choices"].reshape(-1)]
    expected = np.exp(current - update["log_prob"].reshape(-1))
    weight = update["rollout"].stats["Policy/Importance Weight"]
    assert abs(expected - 1).max() > 0.01
    assert weight == pytest.approx(expected.mean(), rel=1e-4)


def test_fragments_of_an_actor_continue_each_other(make_run: MakeRun, seen: Seen) -> None:
    """Each observation of a fragment's end is the first one of the next fragment, so trajectories go on through it."""
    train(make_run("corridor", {**IN_PROCESS, "fragment": 4}, time_horizon=1000))
    carried = np.concatenate([update["rollout"].trajectories.carry[3:-1:4].ravel() for update in seen.updates])
    assert carried.any()
    for update in seen.updates:
        rollout = update["rollout"]
        position = update["seen"]["position"].argmax(-1)
        move = np.where(update["choices"][..., 0] == 1, 1, -1)
        goes_on = rollout.trajectories.carry[:-1]
        expected = np.clip(position[:-1] + move[:-1], 0, None)
        assert (position[1:][goes_on] == expected[goes_on]).all()


def test_fragments_of_one_step_are_learned_from(make_run: MakeRun, seen: Seen) -> None:
    stats = train(make_run("corridor", {**IN_PROCESS, "fragment": 1}, max_steps=256))
    assert stats["Environment/Cumulative Reward"] is not None
    assert [int(update["rollout"].valid.sum()) for update in seen.updates] == [64] * 4


def test_masked_and_continuous_actions_are_played_by_actors(make_run: MakeRun, seen: Seen) -> None:
    train(make_run("corridor", IN_PROCESS, options={"masked": True}, run_id="masked"))
    assert seen.updates[-1]["rollout"].mask is not None
    train(make_run("identity_hybrid", {**IN_PROCESS, "lag": 1}, run_id="hybrid"))


def test_equal_seeds_give_equal_runs_and_lag_changes_them(make_run: MakeRun, tmp_path: Path) -> None:
    models = []
    for number, lag in enumerate((2, 2, 0)):
        train(make_run("corridor", {**IN_PROCESS, "lag": lag}, run_id=f"run{number}"))
        (model,) = SavedRun.open(tmp_path / "results" / f"run{number}", allow_local=True).models.values()
        models.append(np.concatenate([array.ravel() for array in model.values()]))
    assert (models[0] == models[1]).all() and not (models[0] == models[2]).all()


@pytest.mark.parametrize("trainer", ["appo", "impala"])
def test_a_run_in_actors_learns_the_corridor(make_run: MakeRun, trainer: str) -> None:
    run = make_run(
        "corridor",
        {**IN_PROCESS, "lag": 1},
        trainer_type=trainer,
        max_steps=12_000,
        hyperparameters={"learning_rate": 1e-2, "lambd": 0.95},
    )
    with run:
        for _ in run:
            pass
        assert run.evaluate(episodes=50).score > 0.95


def test_a_resumed_run_continues_with_its_weights_and_says_that_it_is_statistical(
    make_run: MakeRun, tmp_path: Path, seen: Seen
) -> None:
    how = {"checkpoint_interval": 100}
    train(make_run("corridor", IN_PROCESS, max_steps=320, **how))
    resumed = make_run("corridor", IN_PROCESS, start={"resume": True}, **how)
    promise = resumed.describe().resume
    assert promise is not None and promise.kind == "statistical"
    assert promise.reasons[0].startswith("actors play while the run learns")
    train(resumed)
    versions = [update["current"] for update in seen.updates]
    assert versions == list(range(10))
    saved = SavedRun.open(tmp_path / "results/run", allow_local=True)
    assert saved.steps == {"Agent": 640}


def test_a_checkpoint_within_a_rollout_of_fragments_has_its_transitions(make_run: MakeRun, seen: Seen) -> None:
    """32 of the 64 steps of a rollout are there at the checkpoint; the resumed run plays the other 32."""
    block = {"hyperparameters": {"batch_size": 64}, "checkpoint_interval": 32}
    train(make_run("corridor", {**IN_PROCESS, "fragment": 16}, max_steps=32, **block))
    assert not seen.updates
    resumed = make_run("corridor", {**IN_PROCESS, "fragment": 16}, max_steps=64, start={"resume": True}, **block)
    train(resumed)
    (update,) = seen.updates
    valid = update["rollout"].valid
    assert valid.sum() == 64 and valid[:, :2].all()  # of the first actor, before and after
    carry = update["rollout"].trajectories.carry
    assert not carry[15, :2].any()  # it began new episodes


def test_a_run_with_more_environments_continues_with_an_empty_rollout(make_run: MakeRun, seen: Seen) -> None:
    train(make_run("corridor", IN_PROCESS, max_steps=128))
    train(make_run("corridor", IN_PROCESS, num_envs=8, max_steps=256, start={"resume": True}))
    assert [update["current"] for update in seen.updates] == [0, 1, 2, 3]
    assert seen.updates[-1]["rollout"].valid.shape[1] == 8


def test_losses_of_appo_and_impala_are_those_of_their_papers(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[tuple[APPOTrainer, Minibatch, Loss, Any]] = []
    for kind in (APPOTrainer, IMPALATrainer):
        of_kind: Any = kind.loss

        def noted(trainer: APPOTrainer, batch: Minibatch, of_kind: Any = of_kind) -> Loss:
            outputs = trainer.evaluate(batch)
            result: Loss = of_kind(trainer, batch)
            found.append((trainer, batch, result.detached(), [output.detach().numpy() for output in outputs]))
            return result

        noted.is_mean_over_rows = True  # type: ignore[attr-defined]
        monkeypatch.setattr(kind, "loss", noted)
    for name in ("appo", "impala"):
        found.clear()
        train(make_run("corridor", {**IN_PROCESS, "lag": 2}, trainer_type=name, run_id=name))
        trainer, batch, loss, (log_prob, entropy, value) = found[-1]
        ratio = np.exp(log_prob - batch.old_log_prob.numpy())
        advantage = batch.advantage.numpy()
        clip = float(trainer.clip_range)
        if name == "appo":
            terms = np.minimum(ratio * advantage, ratio.clip(1 - clip, 1 + clip) * advantage)
        else:
            terms = np.minimum(ratio, 1.0) * log_prob * advantage
        squares = (value - batch.returns.numpy()) ** 2
        total = -terms.mean() + 0.5 * squares.mean() - float(trainer.entropy_weight) * entropy.mean()
        assert float(loss.total) == pytest.approx(total, rel=1e-4)


# ------------------------------------------------------------ what is refused

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"trainer_type": "ppo"}, "actors send fragments, and trainer 'ppo' learns from batches of all agents"),
    ({"network": {"memory": {"memory_size": 16, "sequence_length": 8}}}, r"network_settings\.memory would have to be"),
    ({"reward_signals": {"extrinsic": {}, "rnd": {}}}, "the reward 'rnd' learns from whole rollouts"),
    ({"hyperparameters": {"target_kl": 0.1}}, "target_kl: measures the distance from the policy that acted"),
    ({"hyperparameters": {"rho_bar": 0.5}}, r"rho_bar: must be at least c_bar \(1\)"),
    ({"blocks": {"environment_parameters": {"length": 4}}}, "actors draw no environment_parameters"),
    ({"num_envs": 5}, r"5 environments \(environment.num_envs\) cannot be shared equally by 2 actors"),
    ({"workers": {"lag": 1, "in_process": False}}, "lag: is for in_process: true"),
    ({"workers": {"max_lag": 1, "lag": 2}}, "max_lag: is 1, and with lag 2 every fragment would be dropped"),
    ({"workers": {"listen": "0.0.0.0:0", "in_process": False}}, "would let other machines reach the run"),
    ({"workers": {"listen": "somewhere"}}, "must be HOST:PORT"),
    ({"workers": {"local": 1, "in_process": False}}, "local: the other actors cannot connect; set listen"),
    ({"workers": {"fragmnt": 3}}, "did you mean 'fragment'"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_actors_cannot_do_is_refused(make_run: MakeRun, changes: dict[str, Any], message: str) -> None:
    changes = dict(changes)
    workers = {**IN_PROCESS, **changes.pop("workers", {})}
    with pytest.raises((ConfigError, ConfigErrors, UnsupportedSpace), match=message):
        train(make_run("corridor", workers, **changes))


def test_a_wrapper_of_the_trainer_is_named(make_run: MakeRun, tmp_path: Path) -> None:
    local = tmp_path / "wrapping.py"
    local.write_text(
        "from rlcore import TrainerWrapper, hookimpl\n\nclass Wrapping(TrainerWrapper):\n    pass\n\n"
        "@hookimpl(wrapper=True)\ndef rlcore_create_trainer():\n    return Wrapping((yield))\n"
    )
    plugins = {"plugins": {"local": ["rlcore_devkit.hooks", str(local)]}}
    with pytest.raises(ConfigError, match="Wrapping wraps trainer 'appo' and observes batches of all agents"):
        train(make_run("corridor", IN_PROCESS, blocks=plugins))
