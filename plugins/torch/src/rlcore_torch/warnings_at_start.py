"""Messages of a run that starts: few gradient steps, encoders of small images and with nothing to read, Slurm."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import attrs

from rlcore import BehaviorSpec, Preset, RunContext
from rlcore_torch.networks.image_sizes import BY_SIZE, encoder_by_size
from rlcore_torch.networks.settings import NetworkSettings
from rlcore_torch.settings import OffPolicySettings, OnPolicySettings

__all__ = ["MOST_AGENT_STEPS", "alone_in_slurm", "chosen_encoders", "few_gradient_steps", "unused_encoders"]

MOST_AGENT_STEPS = 64  # for one gradient step; more of them are many
ADVICE = "small environments learn faster with more gradient steps"


def alone_in_slurm(run: RunContext) -> Iterator[str]:
    """Yield a message if Slurm has several tasks for a run that trains in one process."""
    tasks = os.environ.get("SLURM_NTASKS", "")
    if run.ranks.size == 1 and tasks.isdecimal() and int(tasks) > 1:
        yield (
            f"SLURM_NTASKS is {tasks}: this process trains alone, and knows nothing of others that srun starts; to "
            "train in several ranks, use torchrun: srun --ntasks-per-node 1 rlcore torchrun --nnodes N "
            "--nproc-per-node K"
        )


def few_gradient_steps(run: RunContext) -> Iterator[str]:
    """Yield a message for each behavior that takes fewer than one gradient step for ``MOST_AGENT_STEPS`` agent steps.

    Only behaviors that learn in an environment from now on have one.
    """
    if run.inference or run.offline:
        return
    for name, spec in run.behaviors.items():
        settings = run.config.behaviors.get(name, run.config.default_settings)
        assert settings is not None  # or there would be no trainer
        if run.resumed_steps.get(name, 0) >= settings.max_steps:
            continue
        problem = _few(settings.hyperparameters, spec.slots * run.ranks.size)
        if problem:
            presets = ", ".join(_presets(settings.trainer_type, run))
            advice = f" (or choose a preset: {presets})" if presets else ""
            yield f"behavior {name!r}: {problem}{advice}"


def _presets(trainer_type: str, run: RunContext) -> Iterator[str]:
    """The names of the presets for a trainer that need no recorded episodes."""
    for preset in run.plugins.records(Preset.kind):
        with suppress(Exception):  # a preset that is broken says so when it is chosen
            values = preset.resolve()["default_settings"]
            of_preset: str = values["trainer_type"]
            recorded = "prior_data" in values["hyperparameters"]
            if of_preset.rpartition("/")[2] == trainer_type.rpartition("/")[2] and not recorded:
                yield preset.name


def _few(hyperparameters: Any, slots: int) -> str:
    """What to say of ``hyperparameters`` for this many agents; empty if there are enough gradient steps."""
    if isinstance(hyperparameters, OffPolicySettings):
        steps = hyperparameters.steps_per_update
        if steps > MOST_AGENT_STEPS:
            return (
                f"one gradient step is taken for every {steps:,g} agent steps; {ADVICE}: lower "
                "hyperparameters.steps_per_update"
            )
    if isinstance(hyperparameters, OnPolicySettings):
        collected, gradient_steps = steps_of_update(hyperparameters, slots)
        if collected > MOST_AGENT_STEPS * gradient_steps:
            return (
                f"{gradient_steps:,} gradient steps are taken for every {collected:,} agent steps, one for "
                f"{round(collected / gradient_steps):,}; {ADVICE}: lower hyperparameters.buffer_size or "
                "batch_size, or raise num_epoch"
            )
    return ""


def steps_of_update(h: OnPolicySettings, slots: int) -> tuple[int, int]:
    """Return the agent steps of ``slots`` that an update learns from, and its gradient steps, as of Rollout.draw."""
    rows = math.ceil(h.buffer_size / slots)
    collected = rows * slots
    minibatches = max(1, round(collected / h.batch_size))
    return collected, h.num_epoch * minibatches


def chosen_encoders(run: RunContext) -> Iterator[str]:
    """Yield a message for each image that the encoder ``auto`` reads in another way than ``simple`` would."""
    for name, spec, network in _networks(run):
        if network.vis_encode_type.rpartition("/")[2] != "auto":
            continue
        for observation in spec.observations:
            if observation.kind != "image":
                continue
            kind = encoder_by_size(observation.shape)
            if kind != BY_SIZE[0]:
                height, width, _ = observation.shape
                yield (
                    f"behavior {name!r}: {kind} encodes the image {observation.name!r}, because {height} x {width} "
                    f"pixels are too few for {BY_SIZE[0]} (network_settings.vis_encode_type: auto)"
                )


def unused_encoders(run: RunContext) -> Iterator[str]:
    """Yield a message for each behavior whose network settings name an encoder for nothing that its agents observe.

    It is not an error: files of ML-Agents share ``default_settings`` between behaviors with and without images.
    """
    for name, spec, network in _networks(run):
        for problem in _unused(network, spec):
            yield f"behavior {name!r}: network_settings.{problem}"


def _networks(run: RunContext) -> Iterator[tuple[str, BehaviorSpec, NetworkSettings]]:
    """Yield each behavior with a network of PyTorch, and the settings of its network."""
    for name, spec in run.behaviors.items():
        settings = run.config.behaviors.get(name, run.config.default_settings)
        network = getattr(settings, "network_settings", None)
        if isinstance(network, NetworkSettings):
            yield name, spec, network


def _unused(network: NetworkSettings, spec: BehaviorSpec) -> Iterator[str]:
    kinds = {o.kind for o in spec.observations}
    observed = ", ".join(f"{o.name} of shape {list(o.shape)}" for o in spec.observations)
    # Files of ML-Agents name simple, its default, where there is no image. A trainer may have a default of its own.
    by_default = attrs.fields_dict(type(network))["vis_encode_type"].default
    if network.vis_encode_type not in ("auto", "simple", by_default) and "image" not in kinds:
        advice = ""
        if any(2 <= len(o.shape) <= 4 for o in spec.observations):
            advice = (
                "; in environments of Gymnasium, environment.observations: {NAME: {channels: first}} makes an image of "
                "an array"
            )
        name = network.vis_encode_type
        yield f"vis_encode_type: {name} has no effect, because no observation is an image ({observed}){advice}"
    if network.vector_encode_type is not None and kinds <= {"image", "entities"}:
        name = network.vector_encode_type
        yield f"vector_encode_type: {name} has no effect, because no observation is a vector ({observed})"
