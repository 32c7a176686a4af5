"""The whole configuration, and its blocks about the run: where it is stored, device and threads, plugins.

Blocks that belong to plugins (``hyperparameters``, a reward signal, a writer, a plugin's section) are instances of the
plugin's own settings class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from rlcore.settings.behavior import BehaviorSettings
from rlcore.settings.environment import EnvironmentParameter, EnvironmentSettings, EnvSettings, EvaluationSettings
from rlcore.settings.fields import Choice, setting
from rlcore.settings.limits import MAX_THREADS


@attrs.frozen(kw_only=True)
class CheckpointSettings:
    """The name of the run, and how it starts."""

    run_id: str = setting("ppo", "Name of the run; its directory is results_dir/run_id.")
    initialize_from: str | None = setting(None, "Run id whose weights this run starts with, at step 0.")
    initialize_lessons_from: str | None = setting(
        None, "Run of rlcore or ML-Agents whose lessons this run starts with: its id or directory (an rlcore key)."
    )
    resume: bool = setting(False, "Resume the run from its last checkpoint.")
    checkpoint: str | None = setting(
        None,
        "Checkpoint to resume or to act from: a step, or best; by default the newest intact one (an rlcore key).",
    )
    asynchronous: bool = setting(
        False, "Write the checkpoints of an interval while the training continues (an rlcore key)."
    )
    force: bool = setting(False, "Replace an existing run of this name.")
    inference: bool = setting(False, "Act with the saved policy without learning.")
    results_dir: str = setting("results", "Directory of run directories.")


@attrs.frozen(kw_only=True)
class TorchSettings:
    """Device and threads of PyTorch."""

    device: str | None = setting(None, "Device such as cpu or cuda:0; by default, the trainer chooses.")
    num_threads: int = setting(
        1, "Threads of a trainer: 1 uses one core (an rlcore key).", minimum=1, maximum=MAX_THREADS
    )
    fast_cpu: bool = setting(
        True,
        "Compute on a CPU with rlcore's fast versions of some operations; false is plain PyTorch (an rlcore key).",
    )
    cuda_graphs: bool = setting(
        False,
        "Record gradient steps as CUDA graphs and replay them, which is faster for small networks on an NVIDIA GPU (an "
        "rlcore key).",
    )
    deterministic: bool = setting(
        False,
        "On a GPU, compute only with operations that repeat bit for bit, so that a resume is exact there too (an "
        "rlcore key).",
    )
    rank_timeout: float = setting(
        60.0,
        "Seconds that ranks of torchrun wait for each other; more than the longest save or export (an rlcore key).",
        minimum=1.0,
    )


@attrs.frozen(kw_only=True)
class PluginSettings:
    """The choice of plugins to load. It is made before any plugin is imported."""

    autoload: bool = setting(True, "Load every installed plugin that is not disabled.")
    enable: list[str] = setting(factory=list, description="Plugins to load, by NAME or DISTRIBUTION/NAME.")
    disable: list[str] = setting(factory=list, description="Plugins not to load.")
    local: list[str] = setting(
        factory=list, description="Plugins that are not installed: a module 'acme.hooks' or a file './hooks.py'."
    )


@attrs.frozen(kw_only=True)
class ExportSettings:
    """Settings of every exporter; the settings class of a plugin's exporter derives from this class."""

    checkpoints: bool = setting(
        False, "Export the policies at every checkpoint too; such a file is deleted with its checkpoint."
    )


@attrs.frozen(kw_only=True)
class RunConfig:
    """A whole configuration, checked and complete."""

    behaviors: dict[str, BehaviorSettings] = setting(factory=dict, description="How each behavior learns.")
    default_settings: BehaviorSettings | None = setting(
        None, "Settings that behaviors inherit. A behavior that is not listed has exactly these."
    )
    environment: EnvironmentSettings | None = setting(None, "The environment to train in (an rlcore block).")
    evaluation: EvaluationSettings | None = setting(
        None, "Evaluations of the policies while the run trains (an rlcore block)."
    )
    env_settings: EnvSettings = setting(factory=EnvSettings, description="Seed, and how workers start.")
    environment_parameters: dict[str, EnvironmentParameter] = setting(
        factory=dict,
        description="Numbers the environment reads when an episode starts: each is a value, a sampler or a curriculum.",
    )
    checkpoint_settings: CheckpointSettings = setting(
        factory=CheckpointSettings, description="The name of the run, and how it starts."
    )
    torch_settings: TorchSettings = setting(factory=TorchSettings, description="Device and threads of PyTorch.")
    plugins: PluginSettings = setting(factory=PluginSettings, description="Which plugins are loaded (an rlcore block).")
    stats: dict[str, Any] = setting(
        factory=dict,
        description="Statistics writers: settings by name, or false to turn a writer off (an rlcore block).",
        chooses=Choice("writer", by="name", switch=True),
    )
    export: dict[str, Any] = setting(
        factory=dict,
        description="Exporters that write the policies for other programs when the run ends: settings by name, or a "
        "list of names (an rlcore block).",
        chooses=Choice("exporter", by="name"),
    )
    debug: bool = setting(False, "Log more, such as every plugin that was loaded, and why.")
    sections: dict[str, Any] = setting(
        factory=dict,
        description="Plugins' own blocks, by name.",
        chooses=Choice("section", by="claim", attribute="target"),
    )

    @property
    def num_envs(self) -> int:
        """The number of environments that training steps together."""
        return 1 if self.environment is None else self.environment.num_envs or 1

    @property
    def evaluation_environment(self) -> EnvironmentSettings | None:
        """The environment of evaluations: that of ``evaluation``, or else that of training; None if there is neither.

        Its ``num_envs`` is None unless ``evaluation.environment`` sets it.
        """
        if self.evaluation is not None and self.evaluation.environment is not None:
            return self.evaluation.environment
        return None if self.environment is None else attrs.evolve(self.environment, num_envs=None, workers=None)

    @property
    def lone_lessons(self) -> frozenset[str]:
        """The environment parameters that have only one lesson: numbers and samplers."""
        lessons = {
            name: getattr(parameter.curriculum, "lessons", None)
            for name, parameter in self.environment_parameters.items()
        }
        return frozenset(name for name, each in lessons.items() if isinstance(each, Sequence) and len(each) == 1)
