"""A curriculum and two environments with parameters, as a local plugin file, for the tests of the run loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from rlcore import CurriculumSpec, EnvironmentSpec, hookimpl
from rlcore.contracts.batches import Actions
from rlcore.contracts.behavior_spec import BehaviorSpec, ObservationSpec
from rlcore.contracts.curriculum import NO_CHANGES, Changes, EndedEpisodes, EpisodeDraw, LessonChange
from rlcore.contracts.seeding import derive_generator
from rlcore.errors import RunStateError
from rlcore.plugins.context import RunContext
from rlcore.settings import CurriculumSettings, setting
from rlcore_curriculum.run_parameters.curricula import InstalledCurricula
from rlcore_devkit.environments import ArrayEnvironment, SavingEnvironment


@hookimpl
def rlcore_curricula() -> list[CurriculumSpec]:
    return [
        CurriculumSpec(
            name=name, target="stub_curriculum:Stages", settings="stub_curriculum:StageSettings", summary="stages"
        )
        for name in ("stages", "lessons")
    ]


@hookimpl
def rlcore_create_parameter_source() -> InstalledCurricula:
    return InstalledCurricula()


@hookimpl
def rlcore_environments() -> list[EnvironmentSpec]:
    return [EnvironmentSpec(name=name, target=f"stub_curriculum:{name}") for name in ("paced", "paced_and_saved")]


# ---------------------------------------------------------------- curriculum


@attrs.frozen(kw_only=True)
class StageSettings(CurriculumSettings):
    every: int = setting(3, "Episodes of a stage.", minimum=1)
    stages: int = setting(4, "How many there are.", minimum=1)
    reset: bool = setting(False, "Whether all environments are reset.")
    each_step: bool = setting(False, "Look in every step.")
    lessons: list[Any] = setting(factory=list, description="Unused.")

    def problems(self, config: Any, plugins: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
        if self.stages > 10:
            yield ("stages",), "are too many"


class Stages:
    """Every ``every`` episodes of a stage the next one begins; a value is 10 x stage plus a number in [0, 1)."""

    def __init__(self, settings: Mapping[str, StageSettings], run: RunContext) -> None:
        self.parameters = tuple(settings)
        self.blocks = list(settings.values())
        self.every_step = any(block.each_step for block in self.blocks)
        self.stage: NDArray[np.int64] = np.zeros(len(settings), np.int64)
        self.counted: NDArray[np.int64] = np.zeros(len(settings), np.int64)
        self.looks = 0
        self.seed = run.seed
        self.told: list[EndedEpisodes] = []  # for tests; no state

    def uniforms(self, env_index: NDArray[np.int64], episodes: NDArray[np.int64]) -> NDArray[np.float64]:
        """A number in [0, 1) for each episode and parameter, whenever it is drawn."""
        pairs = zip(env_index.tolist(), episodes.tolist(), strict=True)
        return np.array(
            [
                [derive_generator(self.seed, f"parameters/{name}", env, episode).random() for name in self.parameters]
                for env, episode in pairs
            ]
        )

    def draw(self, env_index: NDArray[np.int64], episodes: NDArray[np.int64]) -> EpisodeDraw:
        draw_id = np.tile(self.stage, (len(env_index), 1))
        return EpisodeDraw(10.0 * draw_id + self.uniforms(env_index, episodes), draw_id)

    def draw_target(self, env_index: NDArray[np.int64], episodes: NDArray[np.int64]) -> NDArray[np.float64]:
        last = [10.0 * (block.stages - 1) for block in self.blocks]
        return np.tile(last, (len(env_index), 1)) + self.uniforms(env_index, episodes)

    def episodes_ended(self, ended: EndedEpisodes) -> None:
        self.told.append(ended)
        self.counted += (ended.draw_id == self.stage).sum(0)

    def advance(self, steps: Mapping[str, int]) -> Changes:
        self.looks += 1
        changes = []
        for p, (name, block) in enumerate(zip(self.parameters, self.blocks, strict=True)):
            if self.counted[p] >= block.every and self.stage[p] < block.stages - 1:
                before = int(self.stage[p])
                self.stage[p] += 1
                self.counted[p] = 0
                changes.append((LessonChange(name, before + 1, f"s{before + 1}", before, f"s{before}"), block.reset))
        if not changes:
            return NO_CHANGES
        return Changes(tuple(change for change, _ in changes), True, any(reset for _, reset in changes))

    def summarised(self, behavior: str, stats: Mapping[str, Any]) -> None:
        """Ignore summaries."""

    def stats(self) -> dict[str, float]:
        return {
            f"Environment/Lesson Number/{name}": float(s) for name, s in zip(self.parameters, self.stage, strict=True)
        }

    def status(self) -> dict[str, dict[str, Any]]:
        return {name: {"lesson_num": int(s)} for name, s in zip(self.parameters, self.stage, strict=True)}

    def load_status(self, sections: Mapping[str, Any]) -> None:
        stage = self.stage.copy()
        for p, (name, block) in enumerate(zip(self.parameters, self.blocks, strict=True)):
            section = sections.get(name)
            if isinstance(section, Mapping):
                stage[p] = lesson = section["lesson_num"] if section["lesson_num"] in range(block.stages) else -1
                if lesson < 0:
                    raise RunStateError(f"status of parameter {name!r}: there is no stage {section['lesson_num']!r}")
        self.stage = stage

    def state_dict(self) -> dict[str, Any]:
        return {"stage": self.stage.copy(), "counted": self.counted.copy(), "looks": self.looks}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if np.any(state["stage"] >= [block.stages for block in self.blocks]):
            raise RunStateError("environment_parameters: the checkpoint is at a stage this configuration lacks")
        self.stage, self.counted = np.array(state["stage"]), np.array(state["counted"])
        self.looks = int(state["looks"])


# ---------------------------------------------------------------- environments


def paced(settings: Any, run: RunContext) -> Paced:
    return Paced(run.num_envs, run.behavior_names[0], **settings.options)


def paced_and_saved(settings: Any, run: RunContext) -> PacedAndSaved:
    return PacedAndSaved(run.num_envs, run.behavior_names[0], **settings.options)


class Pace(ArrayEnvironment):
    """An episode takes 3 steps and one more for each 10 of ``pace``; every step is rewarded with ``pay``. Each copy
    takes ``uneven`` steps more than the one before.

    ``begun`` lists (copy, episode, pace, pay) of every episode.
    """

    def __init__(self, num_envs: int, name: str, uneven: int = 0) -> None:
        self.extra = uneven * np.arange(num_envs)
        self.begun: list[tuple[int, int, float, float]] = []
        observation = ObservationSpec("pace", (1,), np.float32)
        spec = BehaviorSpec(name, (observation,), discrete=(2,), env_index=np.arange(num_envs))
        super().__init__(spec, parameters={"pace": 0.0, "pay": 1.0})

    def begin(self, env: int, generator: np.random.Generator) -> None:
        pace, pay = (float(self.parameters[name][env]) for name in ("pace", "pay"))
        self.begun.append((env, int(self.episodes[env]), pace, pay))

    def advance(self, actions: Actions) -> tuple[NDArray[Any], NDArray[Any]]:
        return self.parameters["pay"].copy(), self._steps + 1 >= 3 + self.extra + self.parameters["pace"] // 10

    def observe(self) -> dict[str, NDArray[Any]]:
        return {"pace": self.parameters["pace"][:, None].astype(np.float32)}


class Paced(Pace):
    """Cannot save itself."""


class PacedAndSaved(Pace, SavingEnvironment):
    """Can."""
