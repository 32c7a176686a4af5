"""From a file and the id of an environment to the text of a configuration."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import attrs

from rlcore import ConfigError, Problems, did_you_mean, read_document
from rlcore_migrate.zoo.algorithms import convert_algorithm
from rlcore_migrate.zoo.conversion import Conversion
from rlcore_migrate.zoo.entry import algorithm_of, choose_entry
from rlcore_migrate.zoo.networks import convert_networks
from rlcore_migrate.zoo.worlds import atari_game, find_world
from rlcore_migrate.zoo.wrappers import convert_environment

_CLIP = 10.0  # VecNormalize, for observations and for rewards


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
    document = read_document(path)
    game = atari_game(env_id)
    name = env_id.rpartition(":")[2]
    if game and name not in document.data:
        name = f"{game}NoFrameskip-v4"
    name, note = choose_entry(document, name, game is not None)
    values = dict(document.data[name])
    options = values.get("env_kwargs")
    world = find_world(env_id, options if isinstance(options, dict) else {}, document.data)
    c = Conversion(name, values, without, Problems(document), algorithm, world)
    c.differences += [f"environment: {text}." for text in (note, world.note) if text]
    _convert(c)
    for key in without:
        known = (*c.values, *c.read)
        if key.partition(".")[0] not in known:
            raise ConfigError(f"--without {key}: not a key of the entry{did_you_mean(key, known)}")
    c.finish()
    c.problems.raise_any()
    _, _, place = document.where((name,)).rpartition("/")
    origin = (
        f"Converted by 'rlcore convert zoo' from {place}, the entry {name} for {algorithm}. The comment behind a value "
        "names the key of RL Zoo that it comes from."
    )
    lists = {
        "What rlcore does otherwise than Stable-Baselines3:": c.differences,
        "Keys without a line of their own:": [f"{key}: {text}" for key, text in c.notes.items()],
        "Left out by --without:": [f"{key}: {value!r}" for key, value in c.left_out.items()],
    }
    return Converted(c.file.text(origin, lists), tuple(c.differences), algorithm, c.behavior)


def _convert(c: Conversion) -> None:
    c.numbers["n_envs"] = c.number("n_envs", 1, minimum=1)
    steps = c.number("n_timesteps", 1, minimum=1)
    c.numbers["n_timesteps"] = steps
    if not c.has("n_timesteps"):
        c.refuse("n_timesteps", "missing; RL Zoo has no default for the steps of a run")
    c.put("preset", "none", "every value of Stable-Baselines3 is below")
    c.put("environment.type", "gymnasium")
    package = c.facts("package")
    of_package = f"of a package that must be installed: pip install ./{package}" if package else ""
    c.put("trainer_type", c.facts("trainer"), of_package)
    kind = "discrete" if c.world.half_ranges is None else "continuous"
    if c.facts("actions") not in ("", kind):
        c.refuse("", f"{c.algorithm} of Stable-Baselines3 has no {kind} actions, as {c.world.id} has")
    c.put("max_steps", steps, "n_timesteps")
    c.put("summary_freq", max(1, min(10_000, steps // 20)), "rlcore's own: steps between lines of means")
    convert_environment(c)
    convert_algorithm(c)
    convert_networks(c)
    _normalization(c)
    run_id = f"{c.behavior}-{c.algorithm}"
    c.put("checkpoint_settings.run_id", run_id, "rlcore's own: the directory of the run, in results")


def _normalization(c: Conversion) -> None:
    """``normalize``: true for observations and rewards, or the arguments of VecNormalize."""
    on = c.raw("normalize", False) is not False
    if on and c.values["normalize"] is not True:
        c.unfold("normalize")
    observations = on and c.flag("normalize.norm_obs", True)
    rewards = on and c.flag("normalize.norm_reward", True)
    c.apply("normalize")
    gamma = c.numbers["gamma"]
    if c.raw("normalize.gamma", gamma) != gamma and not c.has("gamma"):
        c.refuse("normalize.gamma", "rewards are normalized with the gamma of the algorithm", "takes that one")
    c.note("normalize.gamma", "that of the algorithm, as here")
    clips = [c.number(f"normalize.{key}", _CLIP, above=0.0) for key in ("clip_obs", "clip_reward")]
    c.put("network_settings.normalize", observations, c.origin("normalize"))
    if observations:
        c.put("network_settings.normalize_clip", clips[0], "clip_obs of VecNormalize")
        if c.algorithm == "ppo":
            c.differ(
                "normalize: the statistics of observations change with every step in Stable-Baselines3, and with every "
                "update in rlcore."
            )
    if rewards:
        c.put("hyperparameters.normalize_rewards", True, "normalize")
        c.put("hyperparameters.normalize_rewards_clip", clips[1], "clip_reward of VecNormalize")
