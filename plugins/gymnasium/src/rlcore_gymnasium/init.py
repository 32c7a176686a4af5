"""``rlcore init --env ID``: writes a configuration file for an environment, with what can be changed as comments."""

from __future__ import annotations

import json
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from rlcore import (
    BehaviorSettings,
    BehaviorSpec,
    ConfigError,
    EnvironmentSettings,
    FieldInfo,
    ObservationSpec,
    Preset,
    RunContext,
    TrainerSpec,
    config_from_mapping,
    echo,
    json_option,
    load_plugins,
    name_problem,
    preset_for,
    yaml_text,
)
from rlcore_gymnasium.plugin import registered

if TYPE_CHECKING:
    from rlcore import Plugins

MOST_ENTITIES = 16  # of a Sequence, which has no limit of its own


@click.command("init")
@click.option("--env", "env_id", required=True, metavar="ID", help="Environment of Gymnasium, such as CartPole-v1.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="File to write.")
@click.option("--preset", metavar="NAME", help="Preset to begin with; by default, one that fits the spaces.")
@json_option
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
def init_command(env_id: str, output: Path | None, preset: str | None, as_json: bool) -> None:
    """Write a configuration file for the environment ID.

    The file names the environment and a preset that fits its observations and actions. The values of the preset are
    comments in it. By default the file is named after the environment, such as cartpole.yaml. A file that exists is
    not replaced.
    """
    plugins = load_plugins()
    find_module_beside(env_id, (output or Path("config.yaml")).absolute().parent)
    seen = Seen.at(env_id, plugins)
    chosen = preset_for(plugins, "ppo", seen.behavior, seen.marks)
    if preset is not None or chosen is None:
        chosen = plugins.record(Preset, preset or "ppo-continuous")
    path = output or Path(f"{seen.behavior.name.lower()}.yaml")
    run_id = seen.behavior.name if name_problem("", path.stem) else path.stem
    start = ["", "checkpoint_settings:", f"  run_id: {run_id}", ""]
    text = "\n".join([*heading(seen, path), "", *document(seen, chosen, plugins), *start])
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(f"{path}: exists; give another file with -o, or delete it") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}; give another file with -o") from error
    if as_json:
        click.echo(json.dumps({"file": str(path), "preset": chosen.name, "run_id": run_id}, indent=4))
        return
    echo(f"{path}: preset {chosen.name}; train with: rlcore run {shlex.quote(str(path))}")


def find_module_beside(env_id: str, directory: Path) -> None:
    """Let Python import ``mine.py`` in ``directory`` for ``mine:Name-v0``, as a run of the written file will."""
    module = env_id.partition(":")[0]
    if ":" in env_id and (directory / f"{module}.py").is_file() and str(directory) not in sys.path:
        sys.path.append(str(directory))  # behind what is installed, which a run prefers too


@attrs.frozen
class Seen:
    """Facts about an environment, which was created once and closed.

    Attributes:
        env_id: Its id.
        observations: The block ``environment.observations`` with which a trainer can learn from it.
        left_out: A sentence for each observation that networks cannot read.
        behavior: What a trainer sees and does.
        limit: Steps after which an episode is truncated; None without a limit.
        marks: What it says about itself, which presets ask for.
    """

    env_id: str
    observations: Mapping[str, Any]
    left_out: tuple[str, ...]
    behavior: BehaviorSpec
    limit: int | None
    marks: frozenset[str]

    @classmethod
    def at(cls, env_id: str, plugins: Plugins) -> Seen:
        """Create the environment as a run does. Raises like :func:`rlcore_gymnasium.environment.make_environment`."""
        from rlcore_gymnasium.environment import make_environment

        spec = registered(env_id)
        observations = entities_of(env_id)
        environment = {"id": env_id, "num_envs": 1, "observations": observations}
        document = {"preset": "none", "environment": environment, "default_settings": {}}
        config = config_from_mapping(document, plugins)
        assert config.environment is not None
        with tempfile.TemporaryDirectory() as directory:
            run = RunContext(config=config, plugins=plugins, directory=Path(directory), seed=0, num_envs=1)
            made = make_environment(config.environment, run)
            left_out = tuple(getattr(made, "left_out", ()))
            try:
                (behavior,) = made.behaviors.values()
                marks = frozenset(getattr(made, "marks", ()))
            finally:
                made.close()
        return cls(env_id, observations, left_out, behavior, spec.max_episode_steps, marks)


def entities_of(env_id: str) -> dict[str, Any]:
    """Return ``environment.observations`` with a limit for each Sequence, which has none of its own."""
    import gymnasium

    from rlcore_gymnasium.spaces.codecs import entries

    try:
        env = gymnasium.make(env_id, disable_env_checker=True)
    except (Exception, SystemExit):  # creating the environment as a run does reports it, with what to install
        return {}
    space = env.observation_space
    with suppress(Exception, SystemExit):
        env.close()
    observations: dict[str, Any] = {}
    for name, (_, part) in entries(space).items():
        if isinstance(part, gymnasium.spaces.Sequence):
            observations[name] = {"max_entities": MOST_ENTITIES}
    return observations


# ---------------------------------------------------------------- the file


def heading(seen: Seen, path: Path) -> Iterator[str]:
    """Yield the comments at the top: commands, and what the environment has."""
    yield f"# {seen.env_id}: written by rlcore init."
    for command in ("validate", "run"):
        yield f"#   rlcore {command} {shlex.quote(str(path))}"
    yield "#"
    for observation in seen.behavior.observations:
        yield f"# observes {observation.name}: {described(observation)}"
    for sentence in seen.left_out:
        yield f"# {sentence}"
    for text in actions(seen.behavior):
        yield f"# acts by {text}"
    if seen.limit is not None:
        yield f"# An episode is truncated after {seen.limit} steps."


def described(observation: ObservationSpec) -> str:
    """Return an observation in words: ``4 numbers``, ``84 x 84 pixels, 4 channels``."""
    if observation.kind == "image":
        height, width, channels = observation.shape
        return f"{height} x {width} pixels, {channels} channel{'' if channels == 1 else 's'}"
    if observation.kind == "entities":
        return "up to {} entities of {} numbers".format(*observation.shape)
    kind = "indicator" if observation.kind == "one_hot" else "number"
    return f"{observation.size} {kind}{'' if observation.size == 1 else 's'}"


def actions(behavior: BehaviorSpec) -> Iterator[str]:
    """Yield the parts of an action in words: ``one of 2 choices``, ``6 numbers from -1 to 1``."""
    if behavior.continuous:
        low = {*behavior.low.tolist()}
        high = {*behavior.high.tolist()}
        limits = ", each with its own limits"
        if len(low) == len(high) == 1:
            limits = f" from {low.pop():g} to {high.pop():g}"
        yield f"{behavior.continuous} number{'' if behavior.continuous == 1 else 's'}{limits}"
    for options in behavior.discrete:
        yield f"one of {options} choices"


def document(seen: Seen, preset: Preset, plugins: Plugins) -> Iterator[str]:
    """Yield the lines of the configuration."""
    values = preset.resolve()
    behavior = values.get("default_settings", {})
    trainer = plugins.record(TrainerSpec, behavior["trainer_type"])
    yield f"preset: {preset.name}  # {preset.summary}"
    yield f"# Its values are from {preset.source}."
    yield ""
    yield "environment:"
    environment: dict[str, Any] = {"id": seen.env_id}
    if seen.observations:
        environment["observations"] = dict(seen.observations)
    classes: dict[str, type] = {"": EnvironmentSettings}
    yield from block(environment, values.get("environment", {}), classes)
    yield ""
    yield "default_settings:"
    steps = behavior.get("max_steps", attrs.fields(BehaviorSettings).max_steps.default)
    written: dict[str, Any] = {"max_steps": steps}
    classes = {
        "": BehaviorSettings,
        "hyperparameters": trainer.resolve("settings"),
        "network_settings": trainer.resolve("network"),
    }
    of_preset = {key: value for key, value in behavior.items() if key != "trainer_type"}
    yield from block(written, of_preset, classes)


def block(written: Mapping[str, Any], of_preset: Mapping[str, Any], classes: Mapping[str, type]) -> Iterator[str]:
    """Yield the lines of a block: keys of the file, then those of the preset as comments.

    ``classes`` are the settings classes that describe the keys, by the name of the block within this one; the block
    itself is called "".
    """
    for key, value in written.items():
        inner = of_preset.get(key)
        if isinstance(value, Mapping) and key in classes:
            yield f"  {key}:"
            inner_of_preset = inner if isinstance(inner, Mapping) else {}
            for line in block(value, inner_of_preset, {"": classes[key]}):
                yield f"  {line}"
        else:
            yield f"  {line_of(key, value, classes)}"
    left = {key: value for key, value in of_preset.items() if key not in written}
    if left:
        yield '  # Values of the preset: to change one, remove "# " before it, and before the name of its block.'
    for key, value in left.items():
        if isinstance(value, Mapping):
            yield f"  # {key}:"
            inner_classes = {"": classes[key]} if key in classes else {}
            for name, setting in value.items():
                yield f"  #   {line_of(name, setting, inner_classes)}"
        else:
            yield f"  # {line_of(key, value, classes)}"


def line_of(key: str, value: Any, classes: Mapping[str, type]) -> str:
    """Return ``batch_size: 64  # Transitions in one minibatch.``"""
    text = yaml_text([value], default_flow_style=True, width=1_000).strip()[1:-1]
    fields = FieldInfo.fields_of(classes[""]) if "" in classes else {}
    if key not in fields:
        return f"{key}: {text}"
    description = re.sub(r" \(an rlcore key[^)]*\)", "", FieldInfo.of(fields[key]).description)
    first = re.split(r"[;.:] ", description)[0].removesuffix(".")
    return f"{key}: {text}  # {first}."
