"""From a file and the id of an environment to the text of a configuration."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import attrs

from rlcore import ConfigError, did_you_mean, read_document
from rlcore_migrate.zoo.conversion import Conversion, convert_normalization, convert_steps
from rlcore_migrate.zoo.entry import Entry, algorithm_of, choose_entry
from rlcore_migrate.zoo.networks import WITH_SDE, convert_networks
from rlcore_migrate.zoo.off_policy import convert_ddpg, convert_dqn, convert_qrdqn, convert_sac, convert_td3
from rlcore_migrate.zoo.ppo import convert_ppo
from rlcore_migrate.zoo.worlds import atari_game, find_world
from rlcore_migrate.zoo.wrappers import convert_environment

__all__ = ["Converted", "convert_file"]

_CONVERTERS = {
    "ppo": convert_ppo, "sac": convert_sac, "td3": convert_td3, "ddpg": convert_ddpg, "dqn": convert_dqn,
    "qrdqn": convert_qrdqn,
}  # fmt: skip
# Whether actions are discrete; both with PPO.
_SPACES = {"sac": False, "td3": False, "ddpg": False, "dqn": True, "qrdqn": True}
_TRAINERS = {"qrdqn": "dqn"}  # where the trainer has another name
# Trainers that the first command of the README does not install: their package, and its folder.
_APART = {
    "td3": ("rlcore-td3", "builtin_trainers/td3"),
    "ddpg": ("rlcore-td3", "builtin_trainers/td3"),
    "dqn": ("rlcore-dqn", "builtin_trainers/dqn"),
    "qrdqn": ("rlcore-dqn", "builtin_trainers/dqn"),
}
_SDE = ("use_sde", "sde_sample_freq", "use_sde_at_warmup")
_COMMON = (
    "n_envs", "n_timesteps", "policy", "policy_kwargs", "normalize", "env_wrapper", "vec_env_wrapper", "frame_stack",
    "callback", "env_kwargs", "monitor_kwargs", "learning_rate", "batch_size", "gamma", *_SDE,
)  # fmt: skip
_PPO = (
    "n_steps", "n_epochs", "gae_lambda", "clip_range", "clip_range_vf", "normalize_advantage", "ent_coef", "vf_coef",
    "max_grad_norm", "target_kl",
)  # fmt: skip
_OFF_POLICY = (
    "buffer_size", "learning_starts", "train_freq", "gradient_steps", "tau", "n_steps", "optimize_memory_usage",
    "replay_buffer_class", "replay_buffer_kwargs", "noise_type", "noise_std", "target_update_interval",
)  # fmt: skip
_DQN = (*_OFF_POLICY, "exploration_fraction", "exploration_initial_eps", "exploration_final_eps", "max_grad_norm")
_OWN = {
    "ppo": _PPO,
    "sac": (*_OFF_POLICY, "ent_coef", "target_entropy"),
    "td3": (*_OFF_POLICY, "policy_delay", "target_policy_noise", "target_noise_clip"),
    "ddpg": _OFF_POLICY,
    "dqn": _DQN,
    "qrdqn": _DQN,
}  # fmt: skip


@attrs.frozen
class Converted:
    """A configuration.

    Attributes:
        text: The file, with comments.
        differences: What rlcore does otherwise, a sentence each.
        algorithm: The algorithm, by the name of its file.
        behavior: The name of the behavior.
    """

    text: str
    differences: tuple[str, ...]
    algorithm: str
    behavior: str


def convert_file(path: Path, env_id: str, algorithm: str | None = None, without: Collection[str] = ()) -> Converted:
    """Convert the entry for an environment of a file of RL Zoo.

    ``env_id`` is the id of Gymnasium, with its module in front if another package registers it. ``algorithm`` is that
    of the file's name unless it is given. ``without`` are keys to leave out. Raises ConfigErrors with all that is
    refused, each with its line, and ConfigError if there is no such entry or the environment cannot be made.
    """
    algorithm = algorithm_of(path, algorithm)
    known = (*_COMMON, *_OWN[algorithm])
    document = read_document(path)
    game = atari_game(env_id)
    name = env_id.rpartition(":")[2]
    if game and name not in document.data:
        name = f"{game}NoFrameskip-v4"
    entry, note = choose_entry(document, name, without, game is not None)
    for key in without:
        if key not in entry.values and key.partition(".")[0] not in (*known, *entry.values):
            raise ConfigError(f"--without {key}: not a key of the entry{did_you_mean(key, (*entry.values, *known))}")
    options = entry.values.get("env_kwargs")
    world = find_world(env_id, options if isinstance(options, dict) else {}, document.data)
    c = Conversion(entry, algorithm, world)
    c.differences += [f"environment: {text}." for text in (note, world.note) if text]
    _convert(c)
    entry.finish(known)
    entry.problems.raise_any()
    return Converted(c.file.text(_head(c)), tuple(c.differences), algorithm, c.behavior)


def _convert(c: Conversion) -> None:
    convert_steps(c)
    c.put("environment.type", "gymnasium", "")
    of_package = ""
    if c.algorithm in _APART:
        of_package = "of {}, which must be installed: pip install ./{}".format(*_APART[c.algorithm])
    c.put_in_behavior("trainer_type", _TRAINERS.get(c.algorithm, c.algorithm), of_package)
    discrete = c.world.half_ranges is None
    if _SPACES.get(c.algorithm, discrete) != discrete:
        kind = "discrete" if discrete else "continuous"
        c.entry.refuse("", f"{c.algorithm} of Stable-Baselines3 has no {kind} actions, as {c.world.id} has")
    c.put_in_behavior("max_steps", c.max_steps, "n_timesteps")
    c.put_in_behavior(
        "summary_freq", max(1, min(10_000, c.max_steps // 20)), "rlcore's own: steps between lines of means"
    )
    convert_environment(c)
    _CONVERTERS[c.algorithm](c)
    convert_networks(c)
    convert_normalization(c)
    _exploration(c)
    _refused(c.entry)
    c.put(
        "checkpoint_settings.run_id",
        f"{c.behavior}-{c.algorithm}",
        "rlcore's own: the directory of the run, in results",
    )


def _exploration(c: Conversion) -> None:
    """State-dependent exploration (gSDE), of which the networks have the noise."""
    entry = c.entry
    on = entry.flag("use_sde", False)
    for key in _SDE:
        value = entry.raw(key)
        if "use_sde" in entry.without and key in entry.values:
            entry.left_out[key] = entry.values[key]
        elif not on:
            entry.note(key, f"{value}, which has no effect in Stable-Baselines3 without use_sde")
    if on and (c.algorithm not in WITH_SDE or c.world.half_ranges is None):
        entry.refuse(
            "use_sde", "state-dependent exploration (gSDE) is for continuous actions of ppo and sac",
            "draws the noise of each step independently, with the default deviation of Stable-Baselines3",
        )  # fmt: skip
    elif on:
        entry.note("use_sde_at_warmup", "the first random actions are uniform here")


def _refused(entry: Entry) -> None:
    """Keys that nothing here corresponds to."""
    reasons = {
        "callback": (
            "callbacks of Stable-Baselines3 do not run here; evaluations are the block evaluation",
            "calls none",
        ),
        "vec_env_wrapper": ("a wrapper of VecEnv does not fit rlcore's environments", "leaves it out"),
        "monitor_kwargs": ("Monitor of Stable-Baselines3 is not used here", "leaves it out"),
    }
    for key, (reason, without) in reasons.items():
        entry.note(key, "null")
        if entry.raw(key) is not None:
            entry.refuse(key, reason, without)


def _head(c: Conversion) -> list[str]:
    """The paragraphs in front of the configuration."""
    place = c.entry.document.where((c.entry.name,)).rpartition("/")[2]
    head = [
        f"Converted by 'rlcore convert zoo' from {place}, the entry {c.entry.name} for {c.algorithm}. The comment "
        "behind a value names the key of RL Zoo that it comes from.",
    ]
    if c.differences:
        head += ["What rlcore does otherwise than Stable-Baselines3:", *(f"- {text}" for text in c.differences)]
    if c.entry.notes:
        head += ["Keys without a line of their own:", *(f"- {key}: {text}" for key, text in c.entry.notes.items())]
    if c.entry.left_out:
        head += ["Left out by --without:", *(f"- {key}: {value!r}" for key, value in c.entry.left_out.items())]
    return head
