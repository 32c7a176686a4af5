"""The tasks that a page can show, and which of them a run trained in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from rlcore import BehaviorSpec, ConfigError, RunContext, UnsupportedExport, read_document
from rlcore_onnx.settings import WebSettings

TYPES = ("gymnasium", "rlcore-gymnasium/gymnasium")


@attrs.frozen
class Task:
    """The observations and actions of a task.

    Attributes:
        observation: Numbers of an observation.
        continuous: Continuous parts of an action.
        discrete: Options of each discrete branch of an action.
    """

    observation: int
    continuous: int = 0
    discrete: tuple[int, ...] = ()

    def require(self, name: str, behavior: BehaviorSpec) -> None:
        """Raise UnsupportedExport unless ``behavior`` is the one of this task, whose id is ``name``."""
        seen = [(each.shape, each.dtype.name) for each in behavior.observations]
        expected = [((self.observation,), "float32")]
        same_actions = (behavior.continuous, behavior.discrete) == (self.continuous, self.discrete)
        if seen != expected or not same_actions or any(behavior.start):
            raise UnsupportedExport(
                f"its observations {seen} and actions (continuous: {behavior.continuous}, discrete: "
                f"{list(behavior.discrete)}) are not those of {name}"
            )


TASKS: Mapping[str, Task] = {
    "Acrobot-v1": Task(observation=6, discrete=(3,)),
    "CartPole-v1": Task(observation=4, discrete=(2,)),
    "MountainCar-v0": Task(observation=2, discrete=(3,)),
    "MountainCarContinuous-v0": Task(observation=2, continuous=1),
    "Pendulum-v1": Task(observation=3, continuous=1),
}
"""The tasks that ``page/tasks.js`` has, by the id of the environment of Gymnasium."""


def chosen_task(settings: WebSettings, run: RunContext) -> str:
    """Return the id of the task to show: that of the settings, or that of the run's environment.

    Raises ConfigError for an environment that a page cannot show.
    """
    shown = ", ".join(TASKS)
    name = settings.environment
    if name is None:
        block = _environment(run)
        name = block.get("id")
        if block.get("type", TYPES[0]) not in TYPES:
            raise ConfigError(
                f"a page cannot show an environment of type {block['type']}; if its equations are those of one of "
                f"{shown}, name this one with --set export.web.environment=ID"
            )
        changed = [key for key in ("options", "wrappers", "observations") if block.get(key)]
        if changed and name in TASKS:
            raise ConfigError(
                f"the run's environment has environment.{changed[0]}, and a page shows {name} as Gymnasium has it; "
                f"--set export.web.environment={name} shows the policy in it nevertheless"
            )
    if name not in TASKS:
        raise ConfigError(f"a page cannot show the environment {name}; it can show {shown}")
    return str(name)


def _environment(run: RunContext) -> Mapping[str, Any]:
    """The block ``environment`` of the run; the context of ``rlcore export`` leaves it out, and the file has it."""
    environment = run.config.environment
    if environment is not None:
        return {field.name: getattr(environment, field.name) for field in attrs.fields(type(environment))}
    path = run.directory / "configuration.yaml"
    block = read_document(path).data.get("environment") if path.is_file() else None
    return block if isinstance(block, Mapping) else {}
