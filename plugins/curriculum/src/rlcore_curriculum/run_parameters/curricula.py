"""The curricula of a run: ended episodes are reported to them, and they choose what the next ones start with."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from rlcore import (
    Curriculum,
    CurriculumSpec,
    DrawsParameters,
    EndedEpisodes,
    Environment,
    EnvironmentParameter,
    EpisodeDraw,
    EpisodeParameters,
    FinishedEpisodes,
    LessonChange,
    ParameterSampler,
    RunContext,
    RunStateError,
    StatSummary,
    Tag,
    json_values,
    saved_mapping,
)
from rlcore_curriculum.arrays import Ints
from rlcore_curriculum.run_parameters.checked import CheckedCurriculum
from rlcore_curriculum.run_parameters.feed import AgentEpisodes, Beginnings, ParameterFeed

log = logging.getLogger(__name__)

# Tags of summaries that are not for curricula to give.
_OF_RLCORE = frozenset(
    {
        Tag.CUMULATIVE_REWARD,
        Tag.GROUP_REWARD,
        Tag.EPISODE_LENGTH,
        Tag.EVALUATION_REWARD,
        Tag.EVALUATION_LENGTH,
        Tag.IS_TRAINING,
        Tag.STEPS_PER_SECOND,
    }
)


class TrainingCurricula(EpisodeParameters):
    """All curricula of a run, by type, side by side: P is the number of parameters of all together.

    Environments and behaviors are those of all ranks: see :meth:`rlcore.Ranks.join`.
    """

    def __init__(
        self,
        curricula: Mapping[str, Curriculum],
        environment: Environment,
        behaviors: Mapping[str, Any],
        lesson_changed: Callable[[LessonChange], None],
        environment_name: str = "environment",
        frozen: bool = False,
    ) -> None:
        self._curricula: dict[str, CheckedCurriculum] = {}
        for kind, curriculum in curricula.items():
            self._curricula[kind] = CheckedCurriculum.of(curriculum, kind)
        self._behaviors = behaviors
        self._lesson_changed = lesson_changed
        self._frozen = frozen  # nothing learns: the curricula only draw
        names: list[str] = []
        self._columns: list[slice] = []  # of each curriculum
        for checked in self._curricula.values():
            first = len(names)
            names += checked.parameters
            self._columns.append(slice(first, len(names)))
        drawing = environment if isinstance(environment, DrawsParameters) else None
        self._feed = ParameterFeed(environment, names, self._draw, environment_name, self._samplers, drawing)
        self.parameters = self._feed.names
        self._agents: dict[str, AgentEpisodes] = {}
        for name, behavior in behaviors.items():
            self._agents[name] = AgentEpisodes(behavior.spec.env_index, self._feed)
        self._warned_of_late = False
        # What ended in the environment step that `after_step` is yet to close, and what it began with.
        self._finished: list[tuple[Any, FinishedEpisodes, Beginnings]] = []
        # The number of each parameter's lesson, if it has lessons. Replaced, never changed: other threads look at it.
        self.lessons: Mapping[str, float] = lesson_numbers(self.stats())

    # ------------------------------------------------------------ episodes

    def before_reset(self, episodes: Ints) -> None:
        """Every environment c is about to start episode ``episodes[c]``."""
        self._feed.before_reset(episodes)

    def after_reset(self, episodes: Ints) -> None:
        """The ``episodes`` [N] of all environments have started, and an episode of every agent."""
        self._feed.after_reset(episodes)
        for agents in self._agents.values():
            agents.begin_all()

    def episodes_finished(self, behavior: Any, finished: FinishedEpisodes) -> None:
        """Episodes of ``behavior`` ended in an environment step; :meth:`after_step` follows, once for all behaviors."""
        beginnings = self._agents[behavior.name].beginnings(finished.slots)
        self._finished.append((behavior, finished, beginnings))

    def after_step(self) -> bool:
        """Report the episodes that ended in the last environment step, and draw what the next ones start with.

        Returns whether all environments are to start their next episode now.
        """
        # The feed first: agents begin with what it says that their environments play now.
        began = self._feed.after_step()
        if self._frozen:
            self._feed.restage(began)
            return False
        any_began = False
        for name, agents in self._agents.items():
            batch = self._behaviors[name].batch
            if began.size or batch.ended.size or batch.aborted is not None:
                agents.begin(began, batch.ended, batch.aborted)
                any_began = True
        if not any_began:
            every_step = any(curriculum.every_step for curriculum in self._curricula.values())
            if not every_step:
                return False
        finished = self._finished
        self._finished = []
        for behavior, episodes, beginnings in finished:
            self._report(behavior, episodes, beginnings)
        return self._advance(began, any_began)

    def _report(self, behavior: Any, finished: FinishedEpisodes, beginnings: Beginnings) -> None:
        agents = self._agents[behavior.name]
        settled = agents.settled
        self._warn_of_late(behavior, agents)
        slots = finished.slots
        env_index = behavior.spec.env_index.take(slots)
        group_returns = finished.group_returns
        if group_returns is None:
            group_returns = np.zeros(len(slots))
        numbers, values, draw_id = beginnings
        for curriculum, columns in zip(self._curricula.values(), self._columns, strict=True):
            ended = EndedEpisodes(
                behavior.name,
                slots,
                env_index,
                numbers,
                settled,
                finished.returns,
                group_returns,
                finished.lengths,
                values[:, columns],
                draw_id[:, columns],
            )
            curriculum.episodes_ended(ended)

    def _warn_of_late(self, behavior: Any, agents: AgentEpisodes) -> None:
        late = None if self._warned_of_late else agents.late
        if late is not None:
            self._warned_of_late = True
            log.warning(
                "behavior %r: an episode of environment %d has not ended while %d later ones began; lessons and other "
                "curricula go on without it, and count it when it ends; if it should end, have the environment "
                "terminate or truncate it, for example with environment.max_episode_steps (reported once)",
                behavior.name,
                behavior.spec.env_index[late],
                agents.patience,
            )

    def _advance(self, began: Ints, any_began: bool) -> bool:
        """``began`` are environments [K] that need a new draw; ``any_began``: an episode of an agent ended."""
        steps = MappingProxyType({name: behavior.steps for name, behavior in self._behaviors.items()})
        lessons: list[LessonChange] = []
        redraw = False
        reset = False
        for curriculum in self._curricula.values():
            if any_began or curriculum.every_step:
                changes = curriculum.advance(steps)
                lessons += changes.lessons
                redraw = redraw or changes.redraw
                reset = reset or changes.reset
        # A curriculum that changed draws every staged episode again, so that none starts with an old lesson.
        self._feed.restage(None if redraw else began)
        if lessons:
            changed = {change.parameter: change.lesson for change in lessons}
            self.lessons = {**self.lessons, **changed}
        for change in lessons:
            self._lesson_changed(change)
        return reset

    def _draw(self, env_index: Ints, episodes: Ints) -> EpisodeDraw:
        """The draws of the curricula, side by side."""
        draws = [curriculum.draw(env_index, episodes) for curriculum in self._curricula.values()]
        values = np.concatenate([draw.values for draw in draws], axis=1)
        draw_id = np.concatenate([draw.draw_id for draw in draws], axis=1)
        return EpisodeDraw(values, draw_id)

    def _samplers(self) -> Mapping[str, ParameterSampler]:
        """The distributions of the next values, of parameters that have one."""
        samplers: dict[str, ParameterSampler] = {}
        for curriculum in self._curricula.values():
            samplers |= curriculum.samplers()
        return samplers

    # ------------------------------------------------------------ summaries and status

    def stats(self) -> dict[str, float]:
        """Scalars of the curricula for every summary, by tag, and the mean of each parameter over environments."""
        tags: dict[str, float] = {}
        owners: dict[str, CheckedCurriculum] = {}
        for curriculum in self._curricula.values():
            stats = curriculum.stats()
            for tag in stats:
                _refuse_foreign_tag(tag, curriculum, owners.get(tag))
                owners[tag] = curriculum
            tags |= stats
        means = self._feed.values.mean(axis=0).tolist()
        for name, mean in zip(self._feed.names, means, strict=True):
            if name not in self._feed.sampled:
                tags[f"{Tag.PARAMETER}{name}"] = mean
        return tags

    def episode_described(self, env: int, latest: bool) -> str:
        """Describe what an episode of environment ``env`` began with, as :meth:`ParameterFeed.described` does."""
        return self._feed.described(env, latest)

    def summarised(self, behavior: str, stats: dict[str, StatSummary]) -> None:
        """Report the statistics of a behavior to all curricula after a summary."""
        for curriculum in self._curricula.values():
            curriculum.summarised(behavior, MappingProxyType(stats))

    def status(self) -> dict[str, Mapping[str, Any]]:
        """A section of JSON values for each parameter, by its name; what is not finite is null."""
        sections: dict[str, Mapping[str, Any]] = {}
        for curriculum in self._curricula.values():
            for name, section in curriculum.status().items():
                try:
                    sections[name] = json_values(section)
                except (TypeError, RecursionError) as error:
                    curriculum.refuse("status", f"returned a section {name!r} that is not JSON: {error}")
        return sections

    def load_status(self, sections: Mapping[str, Any]) -> Mapping[str, float]:
        """Begin with the lessons of another run's status, or of ML-Agents, and return them."""
        for curriculum in self._curricula.values():
            curriculum.load_status(sections)
        self.lessons = lesson_numbers(self.stats())
        with_lesson = set()
        for name, section in sections.items():
            if isinstance(section, Mapping) and "lesson_num" in section:
                with_lesson.add(name)
        return {name: number for name, number in self.lessons.items() if name in with_lesson}

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint saves: every curriculum, staged and open draws."""
        curricula = {}
        for kind, curriculum in self._curricula.items():
            curricula[kind] = {
                "reference": curriculum.reference,
                "parameters": list(curriculum.parameters),
                "state": curriculum.state_dict(),
            }
        agents = {name: episodes.state_dict() for name, episodes in self._agents.items()}
        return {"curricula": curricula, "feed": self._feed.state_dict(), "agents": agents}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load everything; :meth:`replay` or :meth:`resume` follows. Raises RunStateError for other parameters."""
        self.load_learned(state)
        self._feed.load_state_dict(saved_mapping(state, "feed"))
        saved = saved_mapping(state, "agents")
        for name, agents in self._agents.items():
            agents.load_state_dict(saved_mapping(saved, name))

    def load_learned(self, state: Mapping[str, Any]) -> None:
        """Load the curricula alone, without the episodes that were open.

        Raises RunStateError if the parameters had other curricula.
        """
        # Compare resolved references: `lessons` equals `rlcore-curriculum/lessons`.
        states = {}
        saved = {}
        for curriculum in state["curricula"].values():
            states[curriculum["reference"]] = curriculum["state"]
            for name in curriculum["parameters"]:
                saved[name] = curriculum["reference"]
        ours = {}
        for checked in self._curricula.values():
            for name in checked.parameters:
                ours[name] = checked.reference
        if saved != ours:
            raise RunStateError(
                f"environment_parameters: the checkpoint has {_references(saved)}, this configuration "
                f"{_references(ours)}; resume with the configuration of the run"
            )
        for checked in self._curricula.values():
            checked.load_state_dict(states[checked.reference])
        self.lessons = lesson_numbers(self.stats())

    def replay(self) -> None:
        """Every environment is about to start again the episode it is in; :meth:`resume` follows."""
        self._feed.replay()

    def resume(self) -> None:
        """Every environment is in the episode it was in when the state was saved."""
        self._feed.resume()


class InstalledCurricula:
    """A :class:`rlcore.ParameterSource`: the curricula of all plugins."""

    def train(
        self,
        run: RunContext,
        environment: Environment,
        behaviors: Mapping[str, Any],
        lesson_changed: Callable[[LessonChange], None],
        named: str,
    ) -> TrainingCurricula:
        """The curricula of a training."""
        curricula = make_curricula(run.config.environment_parameters, run)
        return TrainingCurricula(curricula, environment, behaviors, lesson_changed, named, run.inference)

    def play(
        self,
        parameters: Mapping[str, EnvironmentParameter],
        run: RunContext,
        environment: Environment,
        named: str,
        drawing: DrawsParameters | None = None,
    ) -> TargetEpisodes:
        """The object that sets the task of training in ``environment``."""
        return TargetEpisodes(target_feed(parameters, run, environment, named, drawing))


class TargetEpisodes:
    """A :class:`rlcore.PlayedParameters`: every episode begins with what ``feed`` draws for it."""

    def __init__(self, feed: ParameterFeed) -> None:
        self.before_reset = feed.before_reset
        self.after_reset = feed.after_reset
        self.described = feed.described
        self._feed = feed

    def after_step(self) -> None:
        """Draw the next episodes of the environments in which one began."""
        began = self._feed.after_step()
        self._feed.restage(began)


def make_curricula(parameters: Mapping[str, EnvironmentParameter], run: RunContext) -> dict[str, Curriculum]:
    """The curricula that ``parameters`` name, each with all of its parameters, by the name it was first given.

    Parameters are in the order of their names, whatever the file's, so that a state fits the file in any order.
    """
    blocks: dict[str, dict[str, Any]] = {}
    specs: dict[str, CurriculumSpec] = {}
    for name, parameter in sorted(parameters.items()):
        spec = run.plugins.record(CurriculumSpec, parameter.curriculum.type)
        kind = parameter.curriculum.type
        for name_of_spec, other in specs.items():
            if other is spec:  # one curriculum under two names, with and without its distribution
                kind = name_of_spec
        specs[kind] = spec
        blocks.setdefault(kind, {})[name] = parameter.curriculum
    curricula: dict[str, Any] = {}
    for kind, spec in specs.items():
        curriculum = run.plugins.create(spec, settings=blocks[kind], run=run)
        curricula[kind] = CheckedCurriculum(curriculum, tuple(blocks[kind]), spec.described, spec.reference)
    return curricula


def target_feed(
    parameters: Mapping[str, EnvironmentParameter],
    run: RunContext,
    environment: Environment,
    named: str,
    drawing: DrawsParameters | None,
) -> ParameterFeed:
    """Feeds ``environment``, which messages call ``named``, with the task that training is for.

    ``drawing`` is the environment if it draws parameters by itself.
    """
    curricula = make_curricula(parameters, run).values()
    checked = [CheckedCurriculum.of(curriculum, "target") for curriculum in curricula]

    def draw(env_index: Ints, episodes: Ints) -> EpisodeDraw:
        parts = [curriculum.draw_target(env_index, episodes) for curriculum in curricula]
        values = np.concatenate(parts, axis=1)
        return EpisodeDraw(values, np.zeros(values.shape, np.int64))

    def samplers() -> Mapping[str, ParameterSampler]:
        distributions: dict[str, ParameterSampler] = {}
        for curriculum in checked:
            distributions |= curriculum.samplers(target=True)
        return distributions

    names: list[str] = []
    for curriculum in curricula:
        names += curriculum.parameters
    return ParameterFeed(environment, names, draw, named, samplers, drawing)


def lesson_numbers(stats: Mapping[str, float]) -> dict[str, float]:
    """The lesson number of each parameter among scalars by tag, by the parameter's name."""
    numbers = {}
    for tag, value in stats.items():
        if tag.startswith(Tag.LESSON_NUMBER):
            numbers[tag.removeprefix(Tag.LESSON_NUMBER)] = value
    return numbers


def _references(curricula: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({curricula[name]})" for name in sorted(curricula))


def _refuse_foreign_tag(tag: str, curriculum: CheckedCurriculum, other: CheckedCurriculum | None) -> None:
    """PluginError for a tag that says something else already: of rlcore, of another parameter or curriculum."""
    if tag in _OF_RLCORE or tag.startswith(Tag.PARAMETER):
        curriculum.refuse("stats", f"returned the tag {tag!r}, which is rlcore's own; call it something else")
    is_lesson = tag.startswith(Tag.LESSON_NUMBER)
    parameter = tag.removeprefix(Tag.LESSON_NUMBER)
    if is_lesson and parameter not in curriculum.parameters:
        curriculum.refuse("stats", f"returned the tag {tag!r}, but has {', '.join(curriculum.parameters)} only")
    if other is not None:
        curriculum.refuse("stats", f"returned the tag {tag!r}, as {other.described} does; call it something else")
