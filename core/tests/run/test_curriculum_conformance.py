"""The rules of curricula as a kit: a curriculum that keeps them passes, and every broken one fails where it should."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore.config import PluginSettings
from rlcore.curriculum import Curriculum, EpisodeDraw
from rlcore.plugins import Plugins, load_plugins
from rlcore.plugins.discover import selection_from
from rlcore.testing import CurriculumConformance

STUB = str(Path(__file__).parent / "stub_curriculum.py")


class Stages(CurriculumConformance):
    curriculum = "stages"
    blocks = {"pace": {"every": 15, "stages": 10}, "pay": {"every": 9, "stages": 10}}

    def plugins(self) -> Plugins:
        return load_plugins(selection_from(PluginSettings(autoload=False, local=[STUB]), {}, (), False))


class TestStages(Stages):
    pass


def draws_by_chance(made: Any) -> None:
    draw, random = made.draw, np.random.default_rng(0)
    made.draw = lambda c, e: EpisodeDraw(random.random(draw(c, e).values.shape), draw(c, e).stamp)


def counts_its_draws(made: Any) -> None:
    draw = made.draw

    def counting(copies: Any, episodes: Any) -> EpisodeDraw:
        made.counted += 1
        return draw(copies, episodes)

    made.draw = counting


def forgets_its_stage(made: Any) -> None:
    save = made.state_dict
    made.state_dict = lambda: {**save(), "stage": np.zeros(2, np.int64)}


def forgets_a_parameter(made: Any) -> None:
    made.parameters = ("pace",)


def draws_too_few(made: Any) -> None:
    draw = made.draw
    made.draw = lambda c, e: EpisodeDraw(draw(c, e).values[:1], draw(c, e).stamp)


def aims_at_nothing(made: Any) -> None:
    made.draw_target = lambda c, e: np.full((len(c), 2), np.nan)


def keeps_its_status(made: Any) -> None:
    made.status = lambda: {"pace": {"lesson_num": 0}}


def needs_a_status(made: Any) -> None:
    made.load_status = lambda sections: made.stage.fill(sections.get("pace", {}).get("lesson_num", 3))


BROKEN: list[tuple[Callable[[Any], None], str]] = [
    (draws_by_chance, "test_equal_runs_draw_the_same"),
    (draws_by_chance, "test_a_draw_depends_on_copy_and_episode_and_not_on_what_else_is_asked"),
    (counts_its_draws, "test_drawing_changes_nothing"),
    (forgets_its_stage, "test_goes_on_from_its_state_as_if_never_stopped"),
    (forgets_a_parameter, "test_has_the_parameters_it_was_given"),
    (draws_too_few, "test_draws_are_finite_and_one_for_each_episode"),
    (aims_at_nothing, "test_draws_are_finite_and_one_for_each_episode"),
    (keeps_its_status, "test_says_where_it_is"),
    (needs_a_status, "test_the_status_of_another_run_may_say_nothing_of_it"),
]


@pytest.mark.parametrize(("break_it", "rule"), BROKEN)
def test_a_broken_curriculum_fails(break_it: Callable[[Any], None], rule: str, tmp_path: Path) -> None:
    # Equal draws by chance come from one generator, or each game would begin with the same numbers.
    made_before: list[Any] = []

    class Broken(Stages):
        directory = tmp_path

        def make(self, seed: int = 1, **settings: Any) -> Curriculum:
            made = super().make(seed, **settings)
            if not (break_it is draws_by_chance and made_before):
                break_it(made)
                made_before.append(made)
            return made

    with pytest.raises(AssertionError):
        getattr(Broken(), rule)()
