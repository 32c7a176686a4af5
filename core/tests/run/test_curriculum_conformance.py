"""The rules of curricula as a kit: a curriculum that keeps them passes, and every broken one fails where it should."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore.contracts.curriculum import Changes, Curriculum, EpisodeDraw, LessonChange
from rlcore.errors import PluginError
from rlcore.plugins.call import Plugins, load_plugins
from rlcore.plugins.select import selection_from
from rlcore.settings import PluginSettings
from rlcore_devkit import CurriculumConformance

STUB = str(Path(__file__).parent / "stub_curriculum.py")


class Stages(CurriculumConformance):
    curriculum = "stages"
    blocks = {"pace": {"every": 15, "stages": 10}, "pay": {"every": 9, "stages": 10}}

    def plugins(self) -> Plugins:
        return load_plugins(selection_from(PluginSettings(autoload=False, local=[STUB]), {}, (), False))


class TestStages(Stages):
    pass


class TestStagesThatReset(Stages):
    blocks = {"pace": {"every": 15, "stages": 10, "reset": True}, "pay": {"every": 9, "each_step": True}}


Breaks = Callable[[Any], None]
EQUAL = "test_equal_runs_draw_the_same"
FINITE = "test_draws_are_finite_and_one_for_each_episode"
SHOWN = "test_the_status_is_json_and_the_statistics_are_finite"
AGENTS = "test_keeps_its_rules_among_several_behaviors_and_agents"
STATE = "test_goes_on_from_its_state_as_if_never_stopped"
GIVEN = "test_has_the_parameters_it_was_given"
ACCEPTED = "test_a_status_without_its_sections_is_accepted"
REDRAW = "test_draws_stay_equal_until_redraw"
NOTHING = "test_drawing_changes_nothing"
NONSENSE = "test_a_status_that_makes_no_sense_changes_nothing"
random = np.random.default_rng(0)  # of all games, or each would begin with the same numbers


def draw(change: Callable[[Any, EpisodeDraw, Any], Any]) -> Breaks:
    """Has ``change(curriculum, drawn, episodes)`` make or change what is drawn."""

    def broken(made: Any) -> None:
        original = made.draw

        def drawing(env_index: Any, episodes: Any) -> EpisodeDraw:
            drawn = original(env_index, episodes)
            return change(made, drawn, episodes) or drawn

        made.draw = drawing

    return broken


def answer(method: str, change: Callable[[Any], Any]) -> Breaks:
    """Has ``method`` return ``change`` of what it returns."""

    def broken(made: Any) -> None:
        original = getattr(made, method)
        setattr(made, method, lambda *given: change(original(*given)))

    return broken


def lesson(*of: Any) -> Breaks:
    """Has a change of this lesson reported."""
    return answer("advance", lambda changes: Changes((LessonChange("pace", *of),)))


def miscounts(count: Callable[[Any], float]) -> Breaks:
    """Has what ``count`` finds in reports change how many episodes are counted."""

    def broken(made: Any) -> None:
        original = made.episodes_ended
        total = [0.0]

        def hear(told: Any) -> None:
            original(told)
            total[0] += count(told)
            made.counted[0] += int(total[0]) % 3

        made.episodes_ended = hear

    return broken


def loads(change: Callable[[Any], list[Any]]) -> Breaks:
    """Has the parts that ``change`` makes of a status loaded one after the other."""

    def broken(made: Any) -> None:
        load = made.load_status
        made.load_status = lambda sections: [load(each) for each in change(sections)]

    return broken


def counts_draws(made: Any, *_: Any) -> None:
    made.counted += 1


def drifts(made: Any, drawn: EpisodeDraw, episodes: Any) -> None:
    made.first = getattr(made, "first", int(episodes[0]) // 256)
    drawn.values += 0.001 * made.first


def in_range(sections: Any) -> Any:
    """Lessons above 9 as lesson 9."""
    section = sections.get("pay")
    return {"pay": {"lesson_num": 9}} if section == {"lesson_num": 10**6} else sections


BY_CHANCE = draw(lambda made, drawn, episodes: EpisodeDraw(random.random(drawn.values.shape), drawn.draw_id))
BROKEN: dict[str, tuple[Breaks, str]] = {
    "draws by chance": (BY_CHANCE, EQUAL),
    "counts its draws": (draw(counts_draws), NOTHING),
    "forgets its stage": (answer("state_dict", lambda state: {**state, "stage": np.zeros(2, np.int64)}), STATE),
    "forgets a parameter": (lambda made: setattr(made, "parameters", ("pace",)), GIVEN),
    "draws too few": (draw(lambda made, drawn, _: EpisodeDraw(drawn.values[:1], drawn.draw_id)), FINITE),
    "aims at nothing": (answer("draw_target", lambda values: np.full_like(values, np.nan)), FINITE),
    "needs a status": (loads(lambda sections: [{"pace": {"lesson_num": 3}, **sections}]), ACCEPTED),
    "forgets to say redraw": (answer("advance", lambda changes: Changes(changes.lessons)), REDRAW),
    "counts agents of a copy once": (
        miscounts(lambda told: len(told.env_index) - len(set(told.env_index.tolist()))),
        AGENTS,
    ),
    "a word for a lesson": (answer("status", lambda _: {"pace": {"lesson_num": "many"}, "pay": {}}), SHOWN),
    "draws by chance for others": (BY_CHANCE, "test_a_draw_depends_on_copy_and_episode_and_not_on_what_else_is_asked"),
    "draws near what it drew first": (
        draw(drifts),
        "test_nor_on_the_order_in_which_the_episodes_of_a_copy_are_asked_for",
    ),
    "writes into reports": (miscounts(lambda told: told.draw_id.fill(0)), EQUAL),
    "writes into episodes": (draw(lambda made, drawn, episodes: episodes.fill(0)), FINITE),
    "returns no changes": (answer("advance", lambda _: None), EQUAL),
    "a lesson without a name": (lesson(1, None, 0, "none"), EQUAL),
    "a lesson below zero": (lesson(1, "one", -1, "none"), EQUAL),
    "numbers for tags": (answer("stats", lambda _: {3: 1.0}), SHOWN),
    "words for statistics": (answer("stats", lambda _: {"Acme/x": "0.5"}), SHOWN),
    "numbers for sections": (answer("status", lambda _: {"pace": 1, "pay": 2}), SHOWN),
    "saves pairs": (answer("state_dict", lambda state: list(state.items())), STATE),
    "counts what groups got": (miscounts(lambda told: float(np.abs(told.group_returns).sum())), AGENTS),
    "loads nonsense as the last lesson": (loads(lambda sections: [in_range(sections)]), NONSENSE),
    "loads the first half": (
        loads(lambda sections: [{name: sections[name]} for name in ("pace", "pay") if name in sections]),
        NONSENSE,
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_curriculum_fails(case: str, tmp_path: Path) -> None:
    break_it, rule = BROKEN[case]

    class Broken(Stages):
        directory = tmp_path

        def make(self, seed: int = 1, **settings: Any) -> Curriculum:
            made = super().make(seed, **settings)
            break_it(made)
            return made

    with pytest.raises((AssertionError, PluginError, ValueError)):
        getattr(Broken(), rule)()
