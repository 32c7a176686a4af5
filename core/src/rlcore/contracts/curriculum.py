"""Environment parameters: what episodes start with, and the curricula that choose it.

A *parameter* is a number an environment reads when an episode starts: a length, a gravity, the size of an arena. Every
block of ``environment_parameters`` belongs to a curriculum; one curriculum object has all parameters that name it. It
is asked for the values of each environment's next episode, and told every episode of every agent that ended. This
module has the contract that curricula implement, and that of the plugin which connects them to a run: a
:class:`ParameterSource`, which a plugin brings.

Shapes: K episodes, P parameters of one curriculum, N environments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.environment import DrawsParameters, Environment, ParameterSampler
from rlcore.contracts.parts import BoundaryPart
from rlcore.contracts.results import FinishedEpisodes
from rlcore.contracts.stats import StatSummary


@attrs.define(eq=False)
class EpisodeDraw:
    """The values with which K episodes start.

    Attributes:
        values: [K, P] value of each parameter.
        draw_id: [K, P] a number of the curriculum's own, such as a lesson's, which it gets back when the episodes end.
    """

    values: NDArray[np.float64]
    draw_id: NDArray[np.int64]


@attrs.define(eq=False)
class EndedEpisodes:
    """K episodes of agents of one behavior, which ended in the same environment step, in the order of their slots.

    ``values`` and ``draw_id`` are what the curriculum drew for the environment's episode in which the agent's started,
    whatever it has drawn since.

    Short episodes are reported first: of N environments that start together, the first N reports are the shortest
    episodes, and their mean is not that of the agent's episodes. ``numbers`` give the order in which the behavior's
    episodes started; ``rlcore_curriculum.episodes_in_order`` returns them in that order.

    Attributes:
        behavior: The name of the behavior.
        slots: [K] slots of the behavior whose episode ended, ascending.
        env_index: [K] index of the environment of each slot.
        numbers: [K] number of each episode in the order in which the behavior's episodes started, from 0 over the run.
        settled: All episodes of the behavior with smaller numbers are over, or are not waited for: after one began, 64
            others for each agent have begun, and 256 at least. It is reported when it ends.
        returns: [K] sum of the agent's own rewards.
        group_returns: [K] sum of the rewards that the agent's group shares; zeros if no rewards are shared.
        lengths: [K] agent steps.
        values: [K, P] value of each parameter in the episode.
        draw_id: [K, P] the ``draw_id`` of the episode's draw.
    """

    behavior: str
    slots: NDArray[np.intp]
    env_index: NDArray[np.int64]
    numbers: NDArray[np.int64]
    settled: int
    returns: NDArray[np.float64]
    group_returns: NDArray[np.float64]
    lengths: NDArray[np.int64]
    values: NDArray[np.float64]
    draw_id: NDArray[np.int64]


@attrs.frozen
class LessonChange:
    """A parameter went from one lesson to another, forward or back; lessons count from 0.

    Attributes:
        parameter: The name of the environment parameter.
        lesson: Number of the new lesson.
        name: Name of the new lesson.
        previous: Number of the lesson before.
        previous_name: Name of the lesson before.
    """

    parameter: str
    lesson: int
    name: str
    previous: int
    previous_name: str


@attrs.frozen
class Changes:
    """The changes that the episodes so far led to.

    Attributes:
        lessons: The lessons that began.
        redraw: Whether episodes that have not started yet are drawn again.
        reset: Whether all environments start their next episode now; open episodes end as if truncated.
    """

    lessons: tuple[LessonChange, ...] = ()
    redraw: bool = False
    reset: bool = False


NO_CHANGES = Changes()
"""The result of ``Curriculum.advance`` when nothing changed."""


@runtime_checkable
class SampledCurriculum(Protocol):
    """Optional for a curriculum: it says what it draws from, for environments that draw by themselves.

    Attributes:
        samplers: The distribution of each parameter whose next values come from one; equal to that of
            :meth:`Curriculum.draw`. It changes with ``advance`` and the methods that load.
        target_samplers: The distribution of each parameter of which :meth:`Curriculum.draw_target` draws from one.
    """

    samplers: Mapping[str, ParameterSampler]
    target_samplers: Mapping[str, ParameterSampler]


@runtime_checkable
class Curriculum(Protocol):
    """Chooses the values of its ``parameters``, episode by episode.

    Rules, checked by :class:`rlcore_devkit.CurriculumConformance`:

    * ``draw`` and ``draw_target`` do not change the curriculum. Calls with equal arguments return equal values until
      ``advance`` returns ``redraw=True`` or an episode of these environments ends. Random numbers come from streams
      named by seed, parameter, environment and episode number (``rlcore_curriculum.episode_table`` has them), so a
      resumed run, or a run with other workers, draws equal values.
    * ``state_dict`` holds everything that later draws and changes depend on.

    Attributes:
        parameters: P names of environment parameters, the columns of every draw.
        every_step: Whether to call ``advance`` after every environment step; False: only after steps in which an
            episode ended.
    """

    parameters: tuple[str, ...]
    every_step: bool

    def draw(self, env_index: NDArray[np.int64], episodes: NDArray[np.int64]) -> EpisodeDraw:
        """Return the values with which environment ``env_index[k]`` starts episode ``episodes[k]``. Both are [K]."""

    def draw_target(self, env_index: NDArray[np.int64], episodes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the values [K, P] of the task that training is for.

        Evaluations play it. The arguments are those of :meth:`draw`.
        """

    def episodes_ended(self, ended: EndedEpisodes) -> None:
        """Called for each behavior of which episodes ended, in the order of the environment's behaviors."""

    def advance(self, steps: Mapping[str, int]) -> Changes:
        """Called after each environment step in which episodes ended, and after every one if ``every_step``.

        ``steps`` are the agent steps that each trainer has observed, by behavior.
        """

    def summarised(self, behavior: str, stats: Mapping[str, StatSummary]) -> None:
        """Called after each summary, with the behavior's statistics."""

    def stats(self) -> Mapping[str, float]:
        """Scalars by tag for the summaries of every behavior, such as ``Environment/Lesson Number/length``.

        Finite, and under tags that neither rlcore nor another curriculum of the run gives.
        """

    def status(self) -> Mapping[str, Mapping[str, Any]]:
        """A section of ``training_status.json`` for each parameter, of JSON values.

        ``rlcore status`` shows these keys of it: ``lesson_num`` (ML-Agents' key, an int), ``lesson`` (its name),
        ``low`` and ``high`` (the range that is drawn from), ``measure``, ``value``, ``threshold``, ``episodes_left``
        (until a change is possible). A number that is not finite is written as null.
        """

    def load_status(self, sections: Mapping[str, Any]) -> None:
        """Start with the lessons in ``sections``, the status of another run or of ML-Agents.

        A parameter without a section starts with its first lesson.

        Raises RunStateError for a section that does not fit this configuration.
        """

    def state_dict(self) -> dict[str, Any]:
        """Return all that later draws and changes depend on: nested mappings of numpy arrays and JSON values."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`.

        Raises RunStateError, changing nothing, if the state is of another configuration.
        """


# ---------------------------------------------------------------- how a run asks for parameters


class EpisodeParameters(BoundaryPart):
    """A source of the parameters that the episodes of a training begin with.

    Environments and behaviors are those of all ranks: see :meth:`rlcore.Ranks.join`.

    Attributes:
        parameters: The names of the parameters.
        lessons: The number of the lesson of each parameter with lessons. Replaced, never changed: other threads look at
            it.
    """

    name = "curricula"
    described = "environment_parameters"
    parameters: tuple[str, ...] = ()
    lessons: Mapping[str, float]

    def episodes_finished(self, behavior: Any, finished: FinishedEpisodes) -> None:
        """Episodes of ``behavior`` ended in an environment step; :meth:`after_step` follows, once for all behaviors."""

    def episode_described(self, env: int, latest: bool) -> str:
        """Describe what an episode of environment ``env`` began with, for messages: ``length 0.5, gravity 9.8``.

        Within the step that ends an episode, that is the one which has just started if ``latest``, else the one before.
        """
        return ""

    def load_status(self, sections: Mapping[str, Any]) -> Mapping[str, float]:
        """Begin with the lessons of another run's status, or of ML-Agents, and return them."""
        return {}

    def replay(self) -> None:
        """Every environment is about to start again the episode it is in; :meth:`resume` follows."""

    def resume(self) -> None:
        """Every environment is in the episode it was in when the state was saved."""


class PlayedParameters(Protocol):
    """Sets what the episodes of an environment begin with that is only played in, as by an evaluation."""

    def before_reset(self, episodes: NDArray[np.int64]) -> None:
        """Every environment is about to start an episode, with the numbers ``episodes`` [N]."""

    def after_reset(self, episodes: NDArray[np.int64]) -> None:
        """The ``episodes`` [N] of all environments have started."""

    def after_step(self) -> None:
        """The environments took a step, in which episodes may have begun."""

    def described(self, env: int, latest: bool) -> str:
        """As :meth:`EpisodeParameters.episode_described`."""


@runtime_checkable
class ParameterSource(Protocol):
    """Chooses what episodes begin with, by the curricula of all plugins.

    The hook ``rlcore_create_parameter_source`` creates it. ``run`` is a :class:`rlcore.RunContext`,
    and ``named`` is what messages call the environment.
    """

    def train(
        self,
        run: Any,
        environment: Environment,
        behaviors: Mapping[str, Any],
        lesson_changed: Callable[[LessonChange], None],
        named: str,
    ) -> EpisodeParameters:
        """Return what chooses the parameters of a training, those of ``run.config.environment_parameters``.

        ``environment`` and ``behaviors`` are those of all ranks. ``lesson_changed`` is called within the step.
        """

    def play(
        self,
        parameters: Mapping[str, Any],
        run: Any,
        environment: Environment,
        named: str,
        drawing: DrawsParameters | None = None,
    ) -> PlayedParameters:
        """Return what sets the task that training is for in ``environment``.

        ``drawing`` is the environment if it draws parameters by itself.
        """
