"""Create curricula of lessons from YAML text, and play scripts of events with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from rlcore import (
    Changes,
    ConfigErrors,
    EndedEpisodes,
    EnvironmentSpec,
    Plugins,
    RunConfig,
    RunContext,
    StatSummary,
    TrainerSpec,
    hookimpl,
    load_checkpoint,
    load_config,
    load_plugins,
    save_checkpoint,
)
from rlcore.config.reading import parse_document
from rlcore_curriculum.lessons import Lessons
from rlcore_devkit.fixtures import installed_plugin

__all__ = ["installed_plugin"]

BEHAVIORS = """
behaviors:
  B: {trainer_type: still, max_steps: 1000}
  C: {trainer_type: still, max_steps: 1000}
"""


class Still:
    """A plugin with a trainer and an environment by name only: these tests need no other distribution."""

    @hookimpl
    def rlcore_trainers(self) -> list[TrainerSpec]:
        named = "rlcore.settings:EnvSettings"
        return [TrainerSpec(name="still", target=named, settings=named)]

    @hookimpl
    def rlcore_environments(self) -> list[EnvironmentSpec]:
        return [EnvironmentSpec(name="still", target="rlcore.settings:EnvironmentSettings")]


@pytest.fixture(scope="session")
def plugins() -> Plugins:
    loaded = load_plugins()
    loaded.register(Still(), "still")
    return loaded


Load = Callable[[str], RunConfig]
Make = Callable[..., Lessons]


@pytest.fixture(scope="session")
def load(plugins: Plugins) -> Load:
    """Load a file ``c.yaml`` with this text; two behaviors, B and C, are added if it has none."""
    return lambda text: load_config(
        parse_document(text if "behaviors:" in text else text + BEHAVIORS, "c.yaml"), plugins
    )


@pytest.fixture(scope="session")
def make(plugins: Plugins, load: Load) -> Make:
    """Create the curriculum of such a text."""

    def make_from(text: str, seed: int = 7, num_envs: int = 4) -> Lessons:
        config = load(text)
        blocks = {name: parameter.curriculum for name, parameter in config.environment_parameters.items()}
        return Lessons(blocks, RunContext(config, plugins, Path(), seed, num_envs))

    return make_from


@pytest.fixture(scope="session")
def errors(load: Load) -> Callable[[str], list[str]]:
    """Return the error lines of such a text."""

    def lines(text: str) -> list[str]:
        with pytest.raises(ConfigErrors) as caught:
            load(text)
        return list(caught.value.messages)

    return lines


@attrs.define
class Script:
    """Plays events, one environment step each, and returns the current lessons after each event.

    =================  ===============================================================================
    ``3 4``            episodes of B that started in the current lessons ended with these returns
    ``3@0 4@0,1``      they started in visit 0 of every parameter, or in 0 of the first and 1 of the second
    ``3+10``           with this group reward
    ``C: 3``           episodes of behavior C
    ``idle``           no episode ended
    ``steps=500``      no episode ended; B and C have learned from this number of agent steps
    ``stat Tag=0.5``   a summary of B with the mean of a statistic; no step
    ``resume``         save a checkpoint, and continue from it in another process; no step
    =================  ===============================================================================
    """

    make: Callable[[], Lessons]
    directory: Path
    steps: int = 0
    begun: int = 0
    resumed: int = 0
    changes: list[Changes] = attrs.field(factory=list)
    lessons: Lessons = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.lessons = self.make()

    def play(self, event: str) -> tuple[int, ...]:
        if event == "resume":
            self._resume()
        elif event.startswith("stat "):
            tag, _, mean = event.removeprefix("stat ").partition("=")
            self.lessons.summarised("B", {tag: StatSummary.of([float(mean)])})
        else:
            self._step(event)
        return self.on

    @property
    def on(self) -> tuple[int, ...]:
        """The numbers of the current lessons."""
        return tuple(int(number) for number in self.lessons.stats().values())

    @property
    def visits(self) -> list[int]:
        """The marks of episodes that start now."""
        drawn = self.lessons.draw(np.zeros(1, np.int64), np.zeros(1, np.int64))
        return [int(visit) for visit in drawn.draw_id[0]]

    def _step(self, event: str) -> None:
        ended = False
        if event.startswith("steps="):
            self.steps = int(event.removeprefix("steps="))
        elif event != "idle":
            episodes = ended_episodes(event, self.visits, self.begun)
            self.begun += len(episodes.numbers)
            self.lessons.episodes_ended(episodes)
            ended = True
        if ended or self.lessons.every_step:
            self.changes.append(self.lessons.advance({"B": self.steps, "C": self.steps}))

    def _resume(self) -> None:
        self.resumed += 1
        path = save_checkpoint(self.directory, self.resumed, {"lessons": self.lessons.state_dict()})
        self.lessons = self.make()
        self.lessons.load_state_dict(load_checkpoint(path)["lessons"])


def ended_episodes(text: str, on: Sequence[int], begun: int) -> EndedEpisodes:
    """Parse the episodes of an event; ``on`` are the current visits, and ``begun`` episodes came before."""
    behavior, texts = (text[0], text[2:].split()) if text[1:2] == ":" else ("B", text.split())
    returns = []
    groups = []
    draw_id = []
    for each in texts:
        numbers = re.fullmatch(r"(?P<own>[-\d.]+)(\+(?P<group>[-\d.]+))?(@(?P<lessons>[\d,]+))?", each)
        assert numbers, f"{each!r} is not an episode"
        began = [int(number) for number in (numbers["lessons"] or "").split(",") if number] or list(on)
        draw_id.append(began * len(on) if len(began) == 1 else began)
        returns.append(float(numbers["own"]))
        groups.append(float(numbers["group"] or 0))
    return EndedEpisodes(
        behavior=behavior,
        slots=np.zeros(len(texts), np.int64),
        env_index=np.zeros(len(texts), np.int64),
        numbers=np.arange(begun, begun + len(texts)),
        settled=begun + len(texts),
        returns=np.array(returns),
        group_returns=np.array(groups),
        lengths=np.ones(len(texts), np.int64),
        values=np.zeros((len(texts), len(on))),
        draw_id=np.array(draw_id, np.int64),
    )


@pytest.fixture
def script(make: Make, tmp_path: Path) -> Callable[[str], Script]:
    """Return a script for the curriculum of a text."""
    return lambda text: Script(lambda: make(text), tmp_path)


@pytest.fixture(scope="session")
def told() -> Any:
    """Return :func:`ended_episodes`, for tests that cannot import it."""
    return lambda text, on, begun=1000: ended_episodes(text, on, begun)
