"""The whole configuration, and the blocks about the run itself.

Blocks that belong to plugins (``hyperparameters``, a reward signal, a writer, a plugin's section) hold an instance of
the plugin's own settings class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from rlcore.settings.behavior import BehaviorSettings
from rlcore.settings.environment import EnvironmentSettings, EvaluationSettings
from rlcore.settings.fields import setting
from rlcore.settings.limits import MAX_COPIES, MAX_THREADS


@attrs.frozen(kw_only=True)
class EnvSettings:
    """ML-Agents' ``env_settings``: the seed, the number of copies, and Unity's player."""

    env_path: str | None = setting(None, "Unity player.", not_supported="Unity environments")
    env_args: list[str] | None = setting(None, "Arguments of the Unity player.", not_supported="Unity environments")
    base_port: int = setting(
        5005, "Port of the first Unity player.", minimum=0, maximum=65535, not_supported="Unity environments"
    )
    num_envs: int = setting(1, "Copies of the environment stepped together.", minimum=1, maximum=MAX_COPIES)
    num_areas: int = setting(1, "Training areas in a Unity scene.", minimum=1, not_supported="Unity environments")
    timeout_wait: int = setting(60, "Seconds to wait for a worker.", minimum=0, not_supported="supervised workers")
    seed: int = setting(-1, "Seed of the run; -1 draws one and writes it down.", minimum=-1, maximum=2**31 - 1)
    max_lifetime_restarts: int = setting(
        10, "Restarts of one worker; -1 for no limit.", minimum=-1, not_supported="supervised workers"
    )
    restarts_rate_limit_n: int = setting(
        1, "Restarts of one worker within the period; -1 for no limit.", minimum=-1, not_supported="supervised workers"
    )
    restarts_rate_limit_period_s: int = setting(
        60, "The period, in seconds.", minimum=1, not_supported="supervised workers"
    )


@attrs.frozen(kw_only=True)
class EngineSettings:
    """ML-Agents' ``engine_settings``: the Unity player's own, read when a Unity environment is used."""

    width: int = setting(84, "Window width in pixels.", minimum=1, not_supported="Unity environments")
    height: int = setting(84, "Window height in pixels.", minimum=1, not_supported="Unity environments")
    quality_level: int = setting(5, "Unity quality level.", minimum=0, not_supported="Unity environments")
    time_scale: float = setting(20, "Unity time scale.", exclusive_minimum=0, not_supported="Unity environments")
    target_frame_rate: int = setting(
        -1, "Unity target frame rate; -1 for none.", minimum=-1, not_supported="Unity environments"
    )
    capture_frame_rate: int = setting(60, "Unity capture frame rate.", minimum=0, not_supported="Unity environments")
    no_graphics: bool = setting(False, "Run the player without graphics.", not_supported="Unity environments")
    no_graphics_monitor: bool = setting(False, "Only the first player draws.", not_supported="Unity environments")


@attrs.frozen(kw_only=True)
class CheckpointSettings:
    """Which run this is and how it starts."""

    run_id: str = setting("ppo", "Name of the run; its directory is results_dir/run_id.")
    initialize_from: str | None = setting(None, "Run id whose weights this run starts from, at step 0.")
    initialize_lessons_from: str | None = setting(
        None, "Run, of rlcore or ML-Agents, whose lessons this run starts with: its id or directory (an rlcore key)."
    )
    load_model: bool = setting(False, "Deprecated by ML-Agents.", not_supported="load_model; use resume")
    resume: bool = setting(False, "Go on with the run from its last checkpoint.")
    force: bool = setting(False, "Replace an existing run of this name.")
    train_model: bool = setting(False, "Deprecated by ML-Agents.", not_supported="train_model; leave it out")
    inference: bool = setting(False, "Act with the saved policy and learn nothing.")
    results_dir: str = setting("results", "Where run directories are made.")


@attrs.frozen(kw_only=True)
class TorchSettings:
    """PyTorch's device and threads."""

    device: str | None = setting(None, "Device such as cpu or cuda:0; without it, the trainer's own choice.")
    num_threads: int = setting(1, "PyTorch threads (an rlcore key).", minimum=1, maximum=MAX_THREADS)


@attrs.frozen(kw_only=True)
class PluginSettings:
    """Which plugins are loaded, decided before any is imported."""

    autoload: bool = setting(True, "Load every installed plugin that is not disabled.")
    enable: list[str] = setting(factory=list, description="Plugins to load, by NAME or DISTRIBUTION/NAME.")
    disable: list[str] = setting(factory=list, description="Plugins not to load.")
    local: list[str] = setting(
        factory=list, description="Plugins that are not installed: a module 'acme.hooks' or a file './hooks.py'."
    )


@attrs.frozen(kw_only=True)
class RunConfig:
    """A whole configuration, checked and complete."""

    behaviors: dict[str, BehaviorSettings] = setting(factory=dict, description="How each behavior learns.")
    default_settings: BehaviorSettings | None = setting(
        None, "What behaviors start from, and what a behavior that is not listed gets."
    )
    environment: EnvironmentSettings | None = setting(None, "Which environment to train in (an rlcore block).")
    evaluation: EvaluationSettings | None = setting(
        None, "Measuring the policies while the run trains (an rlcore block)."
    )
    env_settings: EnvSettings = setting(factory=EnvSettings, description="Seed, copies and Unity's player.")
    engine_settings: EngineSettings = setting(factory=EngineSettings, description="Unity's player.")
    environment_parameters: dict[str, Any] = setting(
        factory=dict,
        description="Numbers the environment reads when an episode begins: a value, a sampler or a curriculum of each.",
    )
    checkpoint_settings: CheckpointSettings = setting(
        factory=CheckpointSettings, description="Which run this is and how it starts."
    )
    torch_settings: TorchSettings = setting(factory=TorchSettings, description="PyTorch's device and threads.")
    plugins: PluginSettings = setting(factory=PluginSettings, description="Which plugins are loaded (an rlcore block).")
    stats: dict[str, Any] = setting(
        factory=dict,
        description="Statistics writers: name to settings, or false to turn one off (an rlcore block).",
    )
    debug: bool = setting(False, "Log more: every plugin that was loaded, and why.")
    sections: dict[str, Any] = setting(factory=dict, description="Plugins' own blocks, by name.")

    @property
    def lone_lessons(self) -> frozenset[str]:
        """The environment parameters that have one lesson for good: numbers and samplers."""
        lessons = {
            name: getattr(parameter.curriculum, "lessons", None)
            for name, parameter in self.environment_parameters.items()
        }
        return frozenset(name for name, each in lessons.items() if isinstance(each, Sequence) and len(each) == 1)
