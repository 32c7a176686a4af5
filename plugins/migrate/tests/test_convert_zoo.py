"""``rlcore convert zoo``: every key of RL Zoo is converted, renamed or refused, and what is converted does the same.

The files in ``data/zoo`` are made up. Those of RL Zoo itself are converted where rl_zoo3 is installed, or where
``RLCORE_ZOO_FILES`` names the directory that has them.
"""

from __future__ import annotations

import math
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rlcore import ConfigError, ConfigErrors, Document, RunConfig, load_config, load_plugins_for, main, read_document
from rlcore_migrate.zoo.convert import Converted, convert_file
from rlcore_migrate.zoo.literals import NotPlain, Reference, literal

for needed in ("rlcore_dqn", "rlcore_gymnasium", "rlcore_ppo", "rlcore_sac", "rlcore_td3"):
    pytest.importorskip(needed)
torch = pytest.importorskip("torch")

FILES = Path(__file__).parent / "data" / "zoo"
ONE = np.ones(1, np.float32)
ALGORITHMS = ("ppo", "sac", "td3", "ddpg", "dqn", "qrdqn")


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def converted(algorithm: str, env_id: str, *without: str) -> Converted:
    return convert_file(FILES / f"{algorithm}.yml", env_id, None, without)


def from_text(algorithm: str, entry: str, env_id: str = "Pendulum-v1", *without: str) -> Converted:
    """Convert a file with one entry, whose keys are ``entry``; it has steps unless they are given."""
    steps = "" if "n_timesteps" in entry else "n_timesteps: 1000, "
    Path(f"{algorithm}.yml").write_text(f"{env_id}: {{{steps}{entry}}}\n")
    return convert_file(Path(f"{algorithm}.yml"), env_id, None, without)


def behavior(result: Converted) -> dict[str, Any]:
    """The block of the behavior, as YAML reads the text."""
    (block,) = yaml.safe_load(result.text)["behaviors"].values()
    return dict(block)


def hyperparameters(result: Converted) -> dict[str, Any]:
    return dict(behavior(result)["hyperparameters"])


def loaded(result: Converted) -> RunConfig:
    """The configuration as rlcore reads it."""
    Path("run.yaml").write_text(result.text)
    document: Document = read_document(Path("run.yaml"))
    return load_config(document, load_plugins_for(document))


# ------------------------------------------------------------ every key

ENTRIES = [
    (algorithm, name)
    for algorithm in ALGORITHMS
    for name in yaml.safe_load((FILES / f"{algorithm}.yml").read_text())
    if name not in ("atari", "default")
]


@pytest.mark.parametrize(("algorithm", "env_id"), ENTRIES)
def test_every_key_of_an_entry_is_named_in_a_result_that_rlcore_accepts(algorithm: str, env_id: str) -> None:
    result = converted(algorithm, env_id)
    comments = "\n".join(line.partition("#")[2] for line in result.text.splitlines())
    entry = yaml.safe_load((FILES / f"{algorithm}.yml").read_text())[env_id]
    kwargs = entry.get("policy_kwargs")
    inner = literal(kwargs) if isinstance(kwargs, str) else {}
    assert [key for key in (*entry, *inner) if key not in comments] == []
    assert loaded(result).behaviors[result.behavior].trainer_type == {"qrdqn": "dqn"}.get(algorithm, algorithm)


def test_an_unknown_key_is_refused_with_the_nearest_one_unless_it_is_left_out() -> None:
    with pytest.raises(ConfigErrors) as caught:
        from_text("ppo", "gama: 0.9, n_stps: 8")
    assert list(caught.value.messages) == [
        "ppo.yml:1: Pendulum-v1.gama: not a key that rlcore can convert; did you mean 'gamma'?; "
        "--without gama converts without it",
        "ppo.yml:1: Pendulum-v1.n_stps: not a key that rlcore can convert; did you mean 'n_steps'?; "
        "--without n_stps converts without it",
    ]
    result = from_text("ppo", "gama: 0.9", "Pendulum-v1", "gama")
    assert "# Left out by --without:\n# - gama: 0.9\n" in result.text
    assert behavior(result)["reward_signals"]["extrinsic"]["gamma"] == 0.99


REFUSED = [
    (
        "ppo",
        "learning_rate: cos_0.1",
        "learning_rate: must be a number or lin_NUMBER, such as lin_0.001, not 'cos_0.1'",
    ),
    ("ppo", "clip_range_vf: lin_0.2", "clip_range_vf: value_clip has no schedule; --without clip_range_vf"),
    ("ppo", "n_steps: 2.5", "n_steps: must be a whole number, not 2.5"),
    ("ppo", "n_steps: 1", "n_steps: n_steps x n_envs must be at least 2"),
    ("ppo", "batch_size: 0", "batch_size: must be at least 1, not 0"),
    ("ppo", "normalize_advantage: 1", "normalize_advantage: must be true or false, not 1"),
    ("ppo", "n_timesteps: null", "n_timesteps: must be a number, not None"),
    ("ppo", "rollout_buffer_class: Own", "rollout_buffer_class: another rollout is a trainer of your own here"),
    ("ppo", "callback: rl_zoo3.callbacks.X", "callback: callbacks of Stable-Baselines3 do not run here"),
    ("ppo", "vec_env_wrapper: a.B", "vec_env_wrapper: a wrapper of VecEnv does not fit"),
    ("ppo", "monitor_kwargs: {a: 1}", "monitor_kwargs: Monitor of Stable-Baselines3 is not used here"),
    ("ppo", "env_kwargs: 3", "env_kwargs: must be a mapping, not 3"),
    (
        "ppo",
        "env_wrapper: absent_package.Wrapper",
        "env_wrapper: absent_package.Wrapper: absent_package is not installed",
    ),
    (
        "ppo",
        "env_wrapper: gymnasium.wrappers.TimLimit",
        "env_wrapper: gymnasium.wrappers.TimLimit: gymnasium.wrappers has",
    ),
    (
        "ppo",
        "env_wrapper: gymnasium.wrappers.NormalizeReward",
        "env_wrapper: gymnasium.wrappers.NormalizeReward: Normalize",
    ),
    ("ppo", "env_wrapper: Wrapper", "env_wrapper: must name classes, module.Class"),
    (
        "ppo",
        "frame_stack: 4, policy: CnnPolicy",
        "frame_stack: up to 4 gray images make an image with as many channels",
    ),
    ("ppo", "policy: [1]", "policy: [1] is none of MlpPolicy, CnnPolicy, MultiInputPolicy"),
    ("ppo", "policy: my.Policy", "policy: 'my.Policy' is none of MlpPolicy, CnnPolicy, MultiInputPolicy"),
    (
        "ppo",
        "policy_kwargs: 'dict(net_arch=[64, dict(vf=[8])])'",
        "policy_kwargs: net_arch: must be a list of widths, or",
    ),
    (
        "ppo",
        "policy_kwargs: 'dict(activation_fn=nn.Hardtanh)'",
        "policy_kwargs: activation_fn: Hardtanh is none of Tanh,",
    ),
    (
        "ppo",
        "policy_kwargs: 'dict(optimizer_class=th.optim.SGD)'",
        "policy_kwargs: optimizer_class: th.optim.SGD is not",
    ),
    (
        "ppo",
        "policy_kwargs: 'dict(optimizer_kwargs=dict(betas=(0.9, 0.9)))'",
        "policy_kwargs: optimizer_kwargs: betas is",
    ),
    (
        "ppo",
        "policy_kwargs: 'dict(features_extractor_class=Own)'",
        "policy_kwargs: features_extractor_class: an encoder",
    ),
    (
        "ppo",
        "policy_kwargs: 'dict(ntarch=[8])'",
        "policy_kwargs: ntarch: not a key that rlcore can convert; did you mean",
    ),
    ("ppo", "policy_kwargs: [1]", "policy_kwargs: must be a mapping, or a text such as 'dict(...)', not [1]"),
    ("ppo", "normalize: 'dict(norm_obs_keys=[1])'", "normalize: norm_obs_keys: all vector observations are normalized"),
    ("ppo", "normalize: 'dict(gamma=0.5)'", "normalize: gamma: rewards are normalized with the gamma of the algorithm"),
    ("sac", "train_freq: [1, episode], gradient_steps: 8", "train_freq: gradient steps do not come at the ends"),
    ("sac", "train_freq: 0", "train_freq: must be a whole number of at least 1, or [1, episode], not 0"),
    ("sac", "gradient_steps: 0", "gradient_steps: must be at least 1, or -1 for one for each step, not 0"),
    ("sac", "target_update_interval: 4", "target_update_interval: targets follow at each gradient step"),
    ("sac", "replay_buffer_class: HerReplayBuffer", "replay_buffer_class: another replay buffer is a replay sampler"),
    ("sac", "noise_type: normal, noise_std: 0.1", "noise_type: the trainer sac adds no noise to actions"),
    ("sac", "policy_kwargs: 'dict(n_critics=1)'", "policy_kwargs: n_critics: sac has two critics here"),
    ("sac", "ent_coef: high", "ent_coef: must be a number, not 'high'"),
    ("td3", "noise_type: pink, noise_std: 0.1", "noise_type: 'pink' is neither normal nor ornstein-uhlenbeck"),
    ("ddpg", "policy_delay: 2", "policy_delay: not a key that rlcore can convert"),
    ("dqn", "gamma: 0.9", "dqn of Stable-Baselines3 has no continuous actions, as Pendulum-v1 has"),
]


@pytest.mark.parametrize(("algorithm", "entry", "message"), REFUSED, ids=[f"{a}-{e}" for a, e, _ in REFUSED])
def test_what_cannot_be_converted_is_refused_with_its_line_and_reason(algorithm: str, entry: str, message: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        from_text(algorithm, entry)
    front = "ppo.yml:1: Pendulum-v1".replace("ppo", algorithm)
    first = caught.value.messages[0]
    assert first.startswith((f"{front}.{message}", f"{front}: {message}")), first


def test_a_target_network_of_dqn_that_moves_a_share_now_and_then_is_refused() -> None:
    with pytest.raises(ConfigErrors, match="tau: the target network would follow at every 2500th gradient step"):
        from_text("dqn", "tau: 0.5", "CartPole-v1")
    result = from_text("dqn", "tau: 0.5, target_update_interval: 1, train_freq: 1", "CartPole-v1")
    assert hyperparameters(result)["tau"] == 0.5 and "target_update_interval" not in hyperparameters(result)


# ------------------------------------------------------------ texts of Python


def test_a_text_of_python_is_read_as_data() -> None:
    text = "dict(a=[64, 64], b={'c': (-1, 2.5)}, d=nn.ReLU, e=True, f='x')"
    assert literal(text) == {"a": [64, 64], "b": {"c": [-1, 2.5]}, "d": Reference("nn.ReLU"), "e": True, "f": "x"}


@pytest.mark.parametrize(
    "text",
    [
        "open('made', 'w')",
        "dict(a=open('made', 'w'))",
        "print(a=1)",
        "[x for x in (1,)]",
        "dict(**{})",
        "1 +",
        "f'{1}'",
        "{1: 2}",
    ],
)
def test_code_in_a_text_is_refused_and_not_run(text: str) -> None:
    with pytest.raises(NotPlain):
        literal(text)
    with pytest.raises(ConfigErrors, match="policy_kwargs"):
        from_text("ppo", f'policy_kwargs: "{text}"')
    assert not Path("made").exists()


# ------------------------------------------------------------ numbers that change


def test_a_rollout_of_all_environments_is_bootstrapped_only_at_its_end() -> None:
    from rlcore import ExtrinsicReward
    from rlcore_torch.on_policy.advantages import Trajectories

    result = converted("ppo", "CartPole-v1")
    n_envs = 3
    n_steps = 24
    gamma = 0.95
    lambd = 0.9
    assert hyperparameters(result)["buffer_size"] == n_envs * n_steps
    generator = np.random.default_rng(1)
    reward, value = generator.normal(size=(2, n_steps, n_envs)).astype(np.float32)
    last = generator.normal(size=n_envs).astype(np.float32)
    following = np.concatenate([value[1:], last[None]])
    # Schulman et al. 2016, eq. 16: the sum of all later residuals of the rollout.
    residual = reward + gamma * following - value
    expected = [
        sum((gamma * lambd) ** (later - t) * residual[later] for later in range(t, n_steps)) for t in range(n_steps)
    ]
    never = np.zeros((n_steps, n_envs), np.bool_)
    trajectories = Trajectories.of(never, never, ~never, behavior(result)["time_horizon"])
    provider = ExtrinsicReward(strength=1.0, gamma=gamma)
    found = trajectories.advantages(reward, value, following, provider, hyperparameters(result)["lambd"])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("key", ["learning_rate", "epsilon"])
def test_lin_falls_to_zero_with_the_steps_and_a_number_stays(key: str) -> None:
    from rlcore_torch import Schedule, linear
    from rlcore_torch.optimization.schedules import BUILT_IN

    for env_id, initial, falls in (
        ("CartPole-v1", {"learning_rate": 0.002, "epsilon": 0.3}, True),
        ("Pendulum-v1", {"learning_rate": 5e-4, "epsilon": 0.25}, False),
    ):
        settings = loaded(converted("ppo", env_id)).behaviors[env_id.partition("-")[0]]
        h = settings.hyperparameters
        steps = 3000
        final = h.final_epsilon if key == "epsilon" else 0.0
        schedule = Schedule(BUILT_IN[getattr(h, f"{key}_schedule")], getattr(h, key), final, settings.max_steps)
        assert (schedule.share is linear) == falls
        for step in (0, 750, 1500, steps):
            remaining = 1.0 - step / steps if falls else 1.0  # progress_remaining of Stable-Baselines3
            assert schedule(step) == pytest.approx(initial[key] * remaining)
        assert (h.beta_schedule, h.beta) == ("constant", 0.02)


@pytest.mark.parametrize(("env_id", "log_std"), [("Pendulum-v1", -2.0), ("MountainCarContinuous-v0", -1.5)])
def test_actions_have_the_standard_deviation_that_log_std_init_says_in_their_own_units(
    env_id: str, log_std: float
) -> None:
    import gymnasium

    from rlcore import BehaviorSpec, ObservationSpec
    from rlcore_torch.networks.actions import ActionLayout
    from rlcore_torch.networks.distributions import Gaussian

    result = from_text("ppo", f"policy_kwargs: 'dict(log_std_init={log_std})'", env_id)
    space = gymnasium.make(env_id).action_space
    assert isinstance(space, gymnasium.spaces.Box)
    spec = BehaviorSpec("B", (ObservationSpec("o", (1,), np.float32),), continuous=1, low=space.low, high=space.high)
    gaussian = Gaussian(spec, None, hyperparameters(result)["initial_log_std"])
    noise = torch.from_numpy(np.random.default_rng(0).standard_normal((40_000, 1)).astype(np.float32))
    raw = gaussian.sample(torch.zeros(40_000, 1), noise).detach().numpy()
    actions = ActionLayout(spec).actions(raw, None).continuous
    assert actions is not None
    assert actions.std() == pytest.approx(math.exp(log_std), rel=0.02)


def sb3_gradient_steps(train_freq: int, gradient_steps: int, n_envs: int, total: int) -> tuple[int, list[int]]:
    """Gradient steps of Stable-Baselines3's loop in ``total`` steps, and their number at each call of step."""
    steps = updates = 0
    at_calls = []
    while steps < total:
        for _ in range(train_freq):
            steps += n_envs
            at_calls.append(updates)
        updates += train_freq * n_envs if gradient_steps == -1 else gradient_steps
    return updates, at_calls


@pytest.mark.parametrize(
    ("train_freq", "gradient_steps", "n_envs"), [(1, 1, 1), (64, 64, 1), (8, 10, 2), (6, 4, 2), (4, -1, 3), (16, 8, 1)]
)
def test_as_many_gradient_steps_are_taken_for_as_many_agent_steps(
    train_freq: int, gradient_steps: int, n_envs: int
) -> None:
    from rlcore_torch.optimization.schedules import UpdateRatio

    entry = f"train_freq: {train_freq}, gradient_steps: {gradient_steps}, n_envs: {n_envs}"
    found = hyperparameters(from_text("sac", entry))
    ratio = UpdateRatio(found["steps_per_update"], together=found.get("gradient_steps", 1))
    block = train_freq * n_envs
    for steps in (block - 1, block, 2 * block - 1, 20 * block):
        whole_blocks = steps // block * block
        assert ratio.due(steps) == sb3_gradient_steps(train_freq, gradient_steps, n_envs, whole_blocks)[0]


@pytest.mark.parametrize(
    ("interval", "train_freq", "gradient_steps", "n_envs"),
    [(10, 256, 128, 1), (600, 16, 8, 1), (250, 4, -1, 1), (1000, 4, 1, 1), (400, 8, 4, 2)],
)
def test_target_networks_of_dqn_are_copied_after_as_many_gradient_steps(
    interval: int, train_freq: int, gradient_steps: int, n_envs: int
) -> None:
    entry = f"train_freq: {train_freq}, gradient_steps: {gradient_steps}, n_envs: {n_envs}"
    entry += f", target_update_interval: {interval}"
    found = hyperparameters(from_text("dqn", entry, "CartPole-v1"))["target_update_interval"]
    updates, at_calls = sb3_gradient_steps(train_freq, gradient_steps, n_envs, 60 * max(interval, train_freq))
    copies = {at for call, at in enumerate(at_calls, start=1) if call % (interval // n_envs) == 0 and at}
    assert updates / len(copies) == pytest.approx(found, rel=0.05)


def test_exploration_of_dqn_falls_over_its_share_of_the_run() -> None:
    h = hyperparameters(converted("dqn", "CartPole-v1"))
    assert (h["initial_epsilon"], h["final_epsilon"], h["epsilon_steps"]) == (0.9, 0.02, 10_000)


@pytest.mark.parametrize("algorithm", ["td3", "ddpg"])
def test_noise_is_the_process_that_stable_baselines3_draws_from(algorithm: str) -> None:
    """The step of OrnsteinUhlenbeckActionNoise: theta is 0.15 and dt 0.01."""
    from rlcore_td3.exploration import ExplorationNoise

    result = converted(algorithm, "MountainCarContinuous-v0")
    noise = ExplorationNoise(loaded(result).behaviors["MountainCarContinuous"].hyperparameters, 2, 1)
    normal = np.random.default_rng(0).standard_normal((50, 2, 1)).astype(np.float32)
    x = np.zeros((2, 1))
    for each in normal:
        x = x + 0.15 * (0.0 - x) * 0.01 + 0.5 * math.sqrt(0.01) * each
        np.testing.assert_allclose(noise.next(each), x, rtol=1e-5, atol=1e-6)


def test_ddpg_is_td3_of_stable_baselines3_with_one_critic_no_delay_and_noise_that_is_clipped_at_0() -> None:
    found = {}
    for entry in ("gamma: 0.9", "gamma: 0.9, policy_kwargs: 'dict(n_critics=3, net_arch=dict(pi=[8, 4], qf=[9]))'"):
        settings = loaded(from_text("ddpg", entry)).behaviors["Pendulum"]
        h = settings.hyperparameters
        assert (h.actor_delay, h.target_noise, h.exploration_noise) == (1, 0.0, 0.0)
        found[h.num_critics] = (settings.network_settings.widths, settings.network_settings.of_critic.widths)
    assert found == {1: ((400, 300), (400, 300)), 3: ((8, 4), (9,))}


def test_the_three_parts_of_td3_are_those_of_the_file() -> None:
    h = loaded(converted("td3", "Pendulum-v1")).behaviors["Pendulum"].hyperparameters
    assert (h.num_critics, h.actor_delay, h.target_noise, h.target_noise_clip) == (3, 3, 0.25, 0.4)
    assert (h.exploration_noise_type, h.exploration_noise) == ("gaussian", 0.3)


def test_qrdqn_is_the_trainer_dqn_with_quantiles_and_the_defaults_of_sb3_contrib() -> None:
    settings = loaded(converted("qrdqn", "CartPole-v1")).behaviors["CartPole"]
    h = settings.hyperparameters
    assert (h.distributional, h.num_quantiles, h.double, h.max_grad_norm) == ("quantile", 12, False, None)
    assert (h.adam_epsilon, h.learning_rate, h.final_epsilon, h.epsilon_steps) == (0.01 / 48, 5e-5, 0.01, 250)
    h = loaded(from_text("qrdqn", "max_grad_norm: 3", "CartPole-v1")).behaviors["CartPole"].hyperparameters
    assert (h.num_quantiles, h.max_grad_norm, h.adam_epsilon) == (200, 3.0, 0.01 / 32)
    with pytest.raises(ConfigErrors, match="batch_size: must be at least 1, not 0"):
        from_text("qrdqn", "batch_size: 0", "CartPole-v1")
    with pytest.raises(ConfigErrors, match="n_quantiles: dqn has no quantiles here"):
        from_text("dqn", "policy_kwargs: 'dict(n_quantiles=5)'", "CartPole-v1")


@pytest.mark.parametrize(
    ("entry", "initial", "learns", "target"),
    [
        ("gamma: 0.9", 1.0, True, -1.0),
        ("ent_coef: auto_0.1", 0.1, True, -1.0),
        ("ent_coef: 0.3", 0.3, False, -1.0),
        ("target_entropy: -0.5", 1.0, True, -0.5),
    ],
)
def test_the_temperature_of_sac(entry: str, initial: float, learns: bool, target: float) -> None:
    h = hyperparameters(from_text("sac", entry))
    assert (h["init_entcoef"], h["learn_entcoef"], h["continuous_target_entropy"]) == (initial, learns, target)


def test_a_target_entropy_is_shared_by_the_parts_of_an_action() -> None:
    pytest.importorskip("Box2D")
    h = hyperparameters(from_text("sac", "target_entropy: -3", "LunarLanderContinuous-v3"))
    assert h["continuous_target_entropy"] == -1.5


@pytest.mark.parametrize(
    ("algorithm", "more", "distribution", "settings"),
    [
        ("ppo", "", "gsde", {"initial_log_std": 0.0, "resample_every": 2048}),
        ("ppo", "n_steps: 8", "gsde", {"initial_log_std": 0.0, "resample_every": 8}),
        (
            "ppo",
            "sde_sample_freq: 4, policy_kwargs: 'dict(log_std_init=-2, full_std=False, use_expln=True)'",
            "gsde",
            {"initial_log_std": -2.0, "resample_every": 4, "full_std": False, "expln": True},
        ),
        ("sac", "train_freq: 32", "squashed_gsde", {"initial_log_std": -3.0, "resample_every": 32}),
        (
            "sac",
            "use_sde_at_warmup: true, policy_kwargs: 'dict(log_std_init=-3.67, clip_mean=0)'",
            "squashed_gsde",
            {"initial_log_std": -3.67, "resample_every": 1, "clip_mean": None},
        ),
    ],
)
def test_state_dependent_exploration_is_a_distribution(
    algorithm: str, more: str, distribution: str, settings: dict[str, Any]
) -> None:
    text = f"use_sde: true{', ' if more else ''}{more}"
    network = behavior(from_text(algorithm, text, "MountainCarContinuous-v0"))["network_settings"]
    assert network["action_distribution"] == distribution
    assert network["action_distribution_settings"] == settings


def test_state_dependent_exploration_of_discrete_actions_is_refused() -> None:
    with pytest.raises(ConfigErrors, match=r"use_sde: .* is for continuous actions of ppo and sac; --without use_sde"):
        from_text("ppo", "use_sde: true", "CartPole-v1")


def test_without_use_sde_the_scale_of_its_noise_is_left_out_and_that_of_other_entries_stays() -> None:
    kwargs = "policy_kwargs: 'dict(log_std_init=-3)'"
    found = {
        on: hyperparameters(from_text("ppo", f"{kwargs}, use_sde: {on}", "MountainCarContinuous-v0", "use_sde"))
        for on in ("true", "false")
    }
    assert {on: h["initial_log_std"] for on, h in found.items()} == {"true": 0.0, "false": -3.0}


# ------------------------------------------------------------ networks


def linear_layers(body: Any) -> list[tuple[int, int]]:
    return [(layer.in_features, layer.out_features) for layer in body.layers]


@pytest.mark.parametrize(
    ("net_arch", "policy", "values"),
    [
        (None, [64, 64], [64, 64]),
        ("[32, 32, 32]", [32, 32, 32], [32, 32, 32]),
        ("[30, 20]", [30, 20], [30, 20]),
        ("[]", [], []),
        ("dict(pi=[8], vf=[9, 9])", [8], [9, 9]),
        ("dict(pi=[8, 4], vf=[])", [8, 4], []),
        ("dict(vf=[16])", [], [16]),
        ("[dict(pi=[8], vf=[8])]", [8], [8]),
    ],
)
def test_networks_have_the_layers_of_net_arch(net_arch: str | None, policy: list[int], values: list[int]) -> None:
    from rlcore import BehaviorSpec, ObservationSpec
    from rlcore_torch import ActorCritic

    entry = "gamma: 0.9" if net_arch is None else f"policy_kwargs: 'dict(net_arch={net_arch})'"
    settings = loaded(from_text("ppo", entry)).behaviors["Pendulum"]
    spec = BehaviorSpec("B", (ObservationSpec("o", (3,), np.float32),), continuous=1, low=-ONE, high=ONE)
    model = ActorCritic(spec, settings.network_settings, 1, settings.hyperparameters.shared_critic)
    for body, widths in ((model.actor, policy), (model.critic, values)):
        assert linear_layers(body) == list(zip([3, *widths], widths, strict=False))
    assert model.critic is not model.actor


@pytest.mark.parametrize(
    ("kwargs", "one_body", "widths"),
    [("", True, []), ("net_arch=[40]", False, [40]), ("share_features_extractor=False", False, [])],
)
def test_a_cnn_is_shared_as_far_as_nothing_follows_it(kwargs: str, one_body: bool, widths: list[int]) -> None:
    from rlcore import BehaviorSpec, ObservationSpec
    from rlcore_torch import ActorCritic

    entry = f"policy: CnnPolicy, policy_kwargs: 'dict({kwargs})'"
    settings = loaded(from_text("ppo", entry)).behaviors["Pendulum"]
    image = ObservationSpec("o", (48, 48, 1), np.uint8, "image")
    spec = BehaviorSpec("B", (image,), discrete=(4,))
    model = ActorCritic(spec, settings.network_settings, 1, settings.hyperparameters.shared_critic)
    assert (model.critic is model.actor) == one_body
    assert linear_layers(model.actor) == list(zip([512, *widths], widths, strict=False))
    assert model.policy_head.linear.in_features == (widths or [512])[-1]


@pytest.mark.parametrize(
    ("kwargs", "expected"),
    [("", 1e-5), ("optimizer_kwargs=dict(eps=3e-6)", 3e-6), ("optimizer_kwargs=dict(weight_decay=0)", 1e-8)],
)
def test_the_epsilon_of_adam_is_that_of_the_policies_of_ppo(kwargs: str, expected: float) -> None:
    assert hyperparameters(from_text("ppo", f"policy_kwargs: 'dict({kwargs})'"))["adam_epsilon"] == expected
    of_sac = 1e-8 if "eps" not in kwargs else expected
    assert hyperparameters(from_text("sac", f"policy_kwargs: 'dict({kwargs})'"))["adam_epsilon"] == of_sac


# ------------------------------------------------------------ normalization


@pytest.mark.parametrize(
    ("entry", "observations", "rewards"),
    [
        ("gamma: 0.9", None, None),
        ("normalize: false", None, None),
        ("normalize: true", 10.0, 10.0),
        ("normalize: \"{'norm_obs': True, 'norm_reward': False}\"", 10.0, None),
        ("normalize: 'dict(norm_obs=False, norm_reward=True)'", None, 10.0),
        ("normalize: {clip_obs: 6.0, clip_reward: 7.0}", 6.0, 7.0),
    ],
)
def test_normalize_is_that_of_observations_and_of_rewards(
    entry: str, observations: float | None, rewards: float | None
) -> None:
    result = from_text("ppo", entry)
    network = behavior(result)["network_settings"]
    assert (network["normalize"], network.get("normalize_clip")) == (observations is not None, observations)
    h = hyperparameters(result)
    assert (h.get("normalize_rewards"), h.get("normalize_rewards_clip")) == (rewards is not None or None, rewards)


# ------------------------------------------------------------ the environment


def test_wrappers_are_named_in_order_and_frames_are_stacked_last() -> None:
    entry = (
        "env_wrapper: [gymnasium.wrappers.time_limit.TimeLimit: {max_episode_steps: 50}, "
        "rl_zoo3.wrappers.FrameSkip: {skip: 2}, sb3_contrib.common.wrappers.TimeFeatureWrapper, yaml.Loader], "
        "frame_stack: 3"
    )
    result = from_text("ppo", entry)
    assert yaml.safe_load(result.text)["environment"]["wrappers"] == [
        {"name": "TimeLimit", "max_episode_steps": 50},
        {"name": "MaxAndSkipObservation", "skip": 2},
        {"name": "TimeAwareObservation", "normalize_time": True},
        {"name": "yaml:Loader"},
        {"name": "FrameStackObservation", "stack_size": 3, "padding_type": "zero"},
    ]
    assert any("FrameSkip" in text for text in result.differences)


def test_gray_frames_are_the_channels_of_one_image() -> None:
    import gymnasium

    from rlcore_gymnasium.spaces.codecs import ObservationPart
    from rlcore_gymnasium.wrappers import wrapper_entries

    pytest.importorskip("Box2D")
    entry = (
        "policy: CnnPolicy, frame_stack: 2, env_wrapper: ["
        "rl_zoo3.wrappers.YAMLCompatResizeObservation: {shape: [40, 48]}, "
        "gymnasium.wrappers.transform_observation.GrayscaleObservation: {keep_dim: true}]"
    )
    result = from_text("ppo", entry, "CarRacing-v3")
    env: gymnasium.Env[Any, Any] = gymnasium.make("CarRacing-v3")
    for wrap in wrapper_entries(yaml.safe_load(result.text)["environment"]["wrappers"]):
        env = wrap(env)
    part = ObservationPart.of(env.observation_space, "o", None, "")
    assert (part.spec.kind, part.spec.shape) == ("image", (40, 48, 2))
    env.close()


def test_arguments_of_the_environment_are_options() -> None:
    result = from_text("ppo", "env_kwargs: {g: 5.0}")
    assert yaml.safe_load(result.text)["environment"]["options"] == {"g": 5.0}


def test_a_game_of_atari_has_the_options_of_its_wrapper() -> None:
    pytest.importorskip("ale_py")
    result = converted("ppo", "PongNoFrameskip-v4")
    assert yaml.safe_load(result.text)["environment"] == {
        "type": "gymnasium",
        "id": "ALE/Pong-v5",
        "num_envs": 4,
        "options": {
            "noop_max": 30,
            "frameskip": 4,
            "img_height": 64,
            "img_width": 64,
            "episodic_life": False,
            "repeat_action_probability": 0.1,
            "use_fire_reset": True,
            "stack_num": 3,
        },
    }
    assert hyperparameters(result)["clip_rewards"] == 1.0
    assert result.behavior == "Pong"
    loaded(result)


def test_a_game_that_ends_with_a_life_is_evaluated_as_a_whole() -> None:
    pytest.importorskip("ale_py")
    wrapper = "stable_baselines3.common.atari_wrappers.AtariWrapper"
    result = from_text("dqn", f"policy: CnnPolicy, env_wrapper: [{wrapper}], frame_stack: 4", "PongNoFrameskip-v4")
    config = loaded(result)
    assert config.environment is not None and config.evaluation_environment is not None
    assert config.environment.options["episodic_life"] is True
    assert config.evaluation_environment.options == {**config.environment.options, "episodic_life": False}


@pytest.mark.parametrize(
    ("env_id", "entry", "made", "said"),
    [
        (
            "Pendulum-v0",
            "Pendulum-v0",
            "Pendulum-v1",
            "Pendulum-v0 is not registered with Gymnasium; Pendulum-v1 is the",
        ),
        ("Acrobot-v0", "Acrobot-v1", "Acrobot-v1", "the file has no entry Acrobot-v0: this is the entry of Acrobot-v1"),
        ("MountainCar-v0", "default", "MountainCar-v0", "this is its entry 'default', as in RL Zoo"),
    ],
)
def test_the_entry_and_the_version_that_are_taken_instead_are_named(
    env_id: str, entry: str, made: str, said: str
) -> None:
    result = converted("ppo", env_id)
    assert f"the entry {entry} for ppo" in " ".join(result.text.replace("\n#", "").split())
    assert yaml.safe_load(result.text)["environment"]["id"] == made
    assert any(said in text for text in result.differences)


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("Pendulun-v1", "'Pendulun-v1' is not registered with Gymnasium; did you mean 'Pendulum-v1'?"),
        ("HopperBulletEnv-v0", "cannot import 'pybullet_envs_gymnasium'.*; pip install pybullet_envs_gymnasium"),
        ("no_such_module:World-v0", "cannot import 'no_such_module'"),
        ("atari", "the name of an entry for many environments; name one"),
    ],
)
def test_an_environment_that_cannot_be_made_is_refused_with_what_to_do(env_id: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        converted("ppo", env_id)


def test_without_gymnasium_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rlcore_gymnasium.plugin", None)
    with pytest.raises(ConfigError, match="its spaces are needed; pip install rlcore-gymnasium"):
        converted("ppo", "CartPole-v1")


def test_a_file_without_the_entry_says_the_nearest_one() -> None:
    with pytest.raises(
        ConfigError, match=r"sac.yml: has no entry Acrobot-v1; it has entries for Pendulum-v1, Mountain"
    ):
        converted("sac", "Acrobot-v1")


# ------------------------------------------------------------ the command


def test_the_command_writes_a_file_once_and_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["convert", "zoo", str(FILES / "ppo.yml"), "--env", "CartPole-v1"]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert main([*words, "-o", "run.yaml"]) == 0
    assert Path("run.yaml").read_text() == printed
    assert capsys.readouterr().out.startswith("wrote run.yaml: ppo for CartPole; it names ")
    Path("run.yaml").write_text("mine")
    assert main([*words, "-o", "run.yaml"]) == 2
    assert "-o run.yaml: exists; replace it with --force" in capsys.readouterr().err
    assert Path("run.yaml").read_text() == "mine"
    assert main([*words, "-o", "run.yaml", "--force"]) == 0
    assert Path("run.yaml").read_text() == printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name a format and a file: rlcore convert zoo ppo.yml --env CartPole-v1"),
        (
            ["zo"],
            "'zo' is not a format; formats: zoo (a hyperparameter file of RL Zoo, such as ppo.yml), mlagents (a "
            "trainer file of ML-Agents up to 1.3, such as trainer_config.yaml); did you mean 'zoo'?",
        ),
        (
            ["zoo", str(FILES / "sac.yml")],
            "sac.yml has entries for Pendulum-v1, MountainCarContinuous-v0",
        ),
        (["zoo", "a2c.yml", "--env", "X"], "a2c.yml: no trainer of rlcore is A2C"),
        (
            ["zoo", "tuned.yml", "--env", "X"],
            "its name does not say the algorithm, as ppo.yml does; add --algo ppo|sac|",
        ),
        (
            ["zoo", "tuned.yml", "--env", "X", "--algo", "pp"],
            "--algo pp: not an algorithm that can be converted; did you",
        ),
        (["zoo", "ppo.yml", "--env", "X"], "ppo.yml: no such file"),
        (["zoo", str(FILES / "ppo.yml"), "--env", "CartPole-v1", "--without", "use_sd"], "did you mean 'use_sde'?"),
    ],
)
def test_the_command_says_what_is_missing(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_converted_file_trains(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "zoo", str(FILES / "ppo.yml"), "--env", "CartPole-v1", "-o", "run.yaml"]) == 0
    assert main(["run", "run.yaml", "--max-steps", "144", "--seed", "1"]) == 0
    assert "done: 144 steps; CartPole" in capsys.readouterr().out


# ------------------------------------------------------------ the files of RL Zoo itself


def zoo_files() -> Path | None:
    if given := os.environ.get("RLCORE_ZOO_FILES"):
        return Path(given)
    found = find_spec("rl_zoo3")
    return None if found is None or found.origin is None else Path(found.origin).parent / "hyperparams"


@pytest.mark.skipif(zoo_files() is None, reason="needs rl_zoo3, or RLCORE_ZOO_FILES with the directory of its files")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_entry_of_rl_zoo_is_accepted_or_refused_with_a_reason(algorithm: str) -> None:
    directory = zoo_files()
    assert directory is not None
    path = directory / f"{algorithm}.yml"
    accepted = []
    refused = {}
    for name in read_document(path).data:
        try:
            result = convert_file(path, {"atari": "ALE/Pong-v5", "default": "CartPole-v0"}.get(name, name))
        except ConfigError as error:
            refused[name] = str(error)
        else:
            loaded(result)
            accepted.append(name)
    assert accepted
    assert [name for name, message in refused.items() if name not in message and name != "default"] == []
