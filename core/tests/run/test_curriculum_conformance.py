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


def draws_by_chance(made: Any) -> None:
    draw, random = made.draw, np.random.default_rng(0)
    made.draw = lambda c, e: EpisodeDraw(random.random(draw(c, e).values.shape), draw(c, e).draw_id)


def counts_its_draws(made: Any) -> None:
    draw = made.draw

    def counting(env_index: Any, episodes: Any) -> EpisodeDraw:
        made.counted += 1
        return draw(env_index, episodes)

    made.draw = counting


def forgets_its_stage(made: Any) -> None:
    save = made.state_dict
    made.state_dict = lambda: {**save(), "stage": np.zeros(2, np.int64)}


def forgets_a_parameter(made: Any) -> None:
    made.parameters = ("pace",)


def draws_too_few(made: Any) -> None:
    draw = made.draw
    made.draw = lambda c, e: EpisodeDraw(draw(c, e).values[:1], draw(c, e).draw_id)


def aims_at_nothing(made: Any) -> None:
    made.draw_target = lambda c, e: np.full((len(c), 2), np.nan)


def keeps_its_status(made: Any) -> None:
    made.status = lambda: {"pace": {"lesson_num": 0}}


def needs_a_status(made: Any) -> None:
    made.load_status = lambda sections: made.stage.fill(sections.get("pace", {}).get("lesson_num", 3))


def draws_what_it_drew_before(made: Any) -> None:
    draw = made.draw
    known: dict[str, int] = {}

    def drawing(env_index: Any, episodes: Any) -> EpisodeDraw:
        drawn: EpisodeDraw = draw(env_index, episodes)
        drawn.values += 0.001 * known.setdefault("first", int(episodes[0]) // 256)
        return drawn

    made.draw = drawing


def writes_into_what_it_is_asked(made: Any) -> None:
    draw = made.draw

    def drawing(env_index: Any, episodes: Any) -> EpisodeDraw:
        drawn: EpisodeDraw = draw(env_index, episodes)
        episodes += 1
        return drawn

    made.draw = drawing


def writes_into_what_ended(made: Any) -> None:
    made.episodes_ended = lambda ended: ended.draw_id.fill(0)


def takes_statistics_away(made: Any) -> None:
    made.summarised = lambda behavior, stats: stats.clear()


def forgets_to_say_redraw(made: Any) -> None:
    advance = made.advance
    made.advance = lambda steps: Changes(advance(steps).lessons)


def forgets_what_groups_got(made: Any) -> None:
    ended = made.episodes_ended
    got = [0.0]

    def hear(told: Any) -> None:
        ended(told)
        got[0] += float(np.abs(told.group_returns).sum())
        made.counted[0] += int(got[0]) % 3

    made.episodes_ended = hear


def counts_the_agents_of_a_copy_once(made: Any) -> None:
    ended = made.episodes_ended
    more = [0]

    def hear(told: Any) -> None:
        ended(told)
        more[0] += len(told.env_index) - len(set(told.env_index.tolist()))
        made.counted[0] += more[0] % 3

    made.episodes_ended = hear


def forgets_a_return(made: Any) -> None:
    advance = made.advance
    made.advance = lambda steps: advance(steps) and None


def says_lessons_in_no_tuple(made: Any) -> None:
    made.advance = lambda steps: Changes(LessonChange("pace", 1, "one", 0, "none"))  # type: ignore[arg-type]


def says_lessons_without_a_name(made: Any) -> None:
    made.advance = lambda steps: Changes((LessonChange("pace", 1, None, 0, "none"),))  # type: ignore[arg-type]


def counts_lessons_below_zero(made: Any) -> None:
    made.advance = lambda steps: Changes((LessonChange("pace", 1, "one", -1, "none"),))


def tags_its_statistics_with_numbers(made: Any) -> None:
    made.stats = lambda: {3: 1.0}


def has_words_for_statistics(made: Any) -> None:
    made.stats = lambda: {"Acme/x": "0.5"}


def has_a_word_for_its_lesson(made: Any) -> None:
    made.status = lambda: {"pace": {"lesson_num": "many"}, "pay": {}}


def saves_pairs(made: Any) -> None:
    save = made.state_dict
    made.state_dict = lambda: list(save().items())


def takes_the_reward_for_its_own(made: Any) -> None:
    made.stats = lambda: {"Environment/Cumulative Reward": 1e6}


def has_numbers_for_sections(made: Any) -> None:
    made.status = lambda: {"pace": 1, "pay": 2}


def makes_the_best_of_nonsense(made: Any) -> None:
    load = made.load_status

    def loading(sections: Any) -> None:
        lesson = sections.get("pay", {}).get("lesson_num") if isinstance(sections.get("pay", {}), dict) else None
        load({"pay": {"lesson_num": min(lesson, 9)}} if isinstance(lesson, int) and lesson > 9 else sections)

    made.load_status = loading


def loads_the_first_half(made: Any) -> None:
    load = made.load_status

    def loading(sections: Any) -> None:
        for name in ("pace", "pay"):
            if name in sections:
                load({name: sections[name]})

    made.load_status = loading


BROKEN: list[tuple[Callable[[Any], None], str]] = [
    (draws_by_chance, "test_equal_runs_draw_the_same"),
    (draws_by_chance, "test_a_draw_depends_on_copy_and_episode_and_not_on_what_else_is_asked"),
    (counts_its_draws, "test_drawing_changes_nothing"),
    (forgets_its_stage, "test_goes_on_from_its_state_as_if_never_stopped"),
    (forgets_a_parameter, "test_has_the_parameters_it_was_given"),
    (draws_too_few, "test_draws_are_finite_and_one_for_each_episode"),
    (aims_at_nothing, "test_draws_are_finite_and_one_for_each_episode"),
    (keeps_its_status, "test_the_status_is_json_and_the_statistics_are_finite"),
    (needs_a_status, "test_a_status_without_its_sections_is_accepted"),
    (draws_what_it_drew_before, "test_nor_on_the_order_in_which_the_episodes_of_a_copy_are_asked_for"),
    (writes_into_what_it_is_asked, "test_draws_are_finite_and_one_for_each_episode"),
    (writes_into_what_ended, "test_equal_runs_draw_the_same"),
    (takes_statistics_away, "test_equal_runs_draw_the_same"),
    (forgets_to_say_redraw, "test_draws_stay_equal_until_redraw"),
    (forgets_what_groups_got, "test_keeps_its_rules_among_several_behaviors_and_agents"),
    (counts_the_agents_of_a_copy_once, "test_keeps_its_rules_among_several_behaviors_and_agents"),
    (forgets_a_return, "test_equal_runs_draw_the_same"),
    (says_lessons_in_no_tuple, "test_equal_runs_draw_the_same"),
    (says_lessons_without_a_name, "test_equal_runs_draw_the_same"),
    (counts_lessons_below_zero, "test_equal_runs_draw_the_same"),
    (tags_its_statistics_with_numbers, "test_the_status_is_json_and_the_statistics_are_finite"),
    (has_words_for_statistics, "test_the_status_is_json_and_the_statistics_are_finite"),
    (has_a_word_for_its_lesson, "test_the_status_is_json_and_the_statistics_are_finite"),
    (saves_pairs, "test_goes_on_from_its_state_as_if_never_stopped"),
    (takes_the_reward_for_its_own, "test_the_status_is_json_and_the_statistics_are_finite"),
    (has_numbers_for_sections, "test_the_status_is_json_and_the_statistics_are_finite"),
    (makes_the_best_of_nonsense, "test_a_status_that_makes_no_sense_changes_nothing"),
    (loads_the_first_half, "test_a_status_that_makes_no_sense_changes_nothing"),
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

    with pytest.raises((AssertionError, PluginError, ValueError)):
        getattr(Broken(), rule)()
