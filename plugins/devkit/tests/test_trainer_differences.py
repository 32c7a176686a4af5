"""TrainerConformance notices what a trainer does not learn from: a line of the scaffold breaks each rule here."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rlcore import load_plugins
from rlcore_devkit import TrainerConformance
from rlcore_devkit.scaffold.names import new_package
from rlcore_devkit.scaffold.writing import write_plugin

Change = Mapping[str, str]
Tests = Callable[..., Any]

TIME_LIMIT = "test_a_time_limit_is_not_an_end_of_the_task"
FINAL = "test_the_final_observation_of_a_truncated_episode_counts"
CUT = "test_an_episode_that_begin_cuts_bootstraps_from_its_last_observation"
LOST = "test_the_reward_of_a_lost_environment_does_not_count"
GROUP = "test_the_reward_of_the_group_counts"
OF_REWARD = "test_each_reward_has_a_discount_and_a_strength_of_its_own"
IGNORES = "test_the_value_of_a_reward_that_ignores_ends_continues_after_them"
ALL_ACT = "test_a_batch_may_say_that_all_agents_act"
RANKS = "test_two_ranks_learn_what_one_process_learns"

EVERY = [
    *((rule, ()) for rule in (TIME_LIMIT, FINAL, CUT, LOST, GROUP, IGNORES, ALL_ACT)),
    *((OF_REWARD, (reward, *of)) for reward in ("extrinsic", "another") for of in (("gamma", 0.3), ("strength", 4.0))),
]

BROKEN: dict[str, tuple[Change, str, tuple[Any, ...]]] = {
    "truncation as termination": (
        {
            'terminated, ended = rollout["terminated"], rollout["terminated"]': (
                'terminated = ended = rollout["terminated"]'
            )
        },
        TIME_LIMIT,
        (),
    ),
    "termination as truncation": ({"np.where(terminated, 0.0, returns[..., k])": "returns[..., k]"}, TIME_LIMIT, ()),
    "the final observation unused": ({"if batch.final_observations is not None": "if False"}, FINAL, ()),
    "begin does nothing": ({"if self.rows:  # open episodes": "if False:  # open episodes"}, CUT, ()),
    "a lost transition is kept": ({'"lost": lost': '"lost": np.zeros_like(lost)'}, LOST, ()),
    "group_reward dropped": ({'row["group_reward"] = ': "dropped = "}, GROUP, ()),
    "0.99 for the gamma of the provider": ({"provider.gamma *": "0.99 *"}, OF_REWARD, ("extrinsic", "gamma", 0.3)),
    "the first gamma for all": (
        {"provider.gamma *": "self.providers[0].gamma *"}, OF_REWARD, ("another", "gamma", 0.3)
    ),
    "strength ignored": ({"provider.strength *": "1.0 *"}, OF_REWARD, ("extrinsic", "strength", 4.0)),
    "ignore_done ignored": ({"if provider.ignore_done else": "if False else"}, IGNORES, ()),
    "turns refused that are none": (
        {'mask = np.ones(': 'assert batch.needs_action is None\n        mask = np.ones('}, ALL_ACT, ()
    ),
}  # fmt: skip

# The scaffold as a trainer of several ranks: means over the rows of all ranks, noise by the slots of the run.
IN_RANKS: Change = {
    "turns=False": "turns=False, ranks=True",
    "        self.slots = behavior.slots\n": (
        "        self.slots = behavior.slots\n"
        "        self.ranks = run.ranks\n"
        "        self.policy.share = run.ranks.share_slots(behavior.env_index, run.first_env)\n"
    ),
    "generator.gumbel(size=branch.shape)": (
        "generator.gumbel(size=(self.share.total, branch.shape[1]))[self.share.numbers]"
    ),
    "self.slots - int(lost.sum())": "self.ranks.total(self.slots - int(lost.sum()))",
    "len(self.rows) * self.slots": "len(self.rows) * self.ranks.total(self.slots)",
    "(advantage - advantage.mean()) / (advantage.std() + 1e-8)": (
        "advantage - self.mean(advantage)\n"
        "        advantage = advantage / (np.sqrt(self.mean(advantage**2)) + 1e-8)"
    ),
    "features.T @ features / len(features)": "self.mean(features[:, :, None] * features[:, None])",
    "features.T @ (gradient * advantage[:, None]) / len(features)": (
        "self.mean(features[:, :, None] * (gradient * advantage[:, None])[:, None])"
    ),
    "features.T @ error / len(features)": "self.mean(features[:, :, None] * error[:, None])",
    "    def ready(self)": (
        "    def mean(self, rows):\n"
        "        return self.ranks.sum(np.asarray(rows.sum(axis=0))) / self.ranks.total(len(rows))\n\n"
        "    def ready(self)"
    ),
}  # fmt: skip
WRONG_SUMS: dict[str, Change] = {
    "none": {"self.ranks.sum(np.asarray(rows.sum(axis=0)))": "rows.sum(axis=0)"},
    "divided by the rows of one rank": {"/ self.ranks.total(len(rows))": "/ len(rows)"},
    "a mean of means": {
        "self.ranks.sum(np.asarray(rows.sum(axis=0))) / self.ranks.total(len(rows))": (
            "self.ranks.sum(np.asarray(rows.mean(axis=0))) / self.ranks.size"
        )
    },
    "the steps of one rank": {"self.ranks.total(self.slots - int": "(self.slots - int"},
}


@pytest.fixture
def tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tests]:
    """Make the tests of a new trainer whose code is changed: each text of ``changes`` is there once."""

    def make(*changes: Change) -> Any:
        package = write_plugin(new_package("fresh", ("trainer",)), tmp_path)
        sources = package / "src/rlcore_fresh"
        for change in changes:
            for old, new in change.items():
                [file] = [file for file in sources.glob("*.py") if old in file.read_text(encoding="utf-8")]
                text = file.read_text(encoding="utf-8")
                assert text.count(old) == 1
                file.write_text(text.replace(old, new), encoding="utf-8")
        monkeypatch.syspath_prepend(sources.parent)
        importlib.invalidate_caches()

        class Conformance(TrainerConformance):
            trainer = "fresh"
            hyperparameters = {"buffer_size": 96}
            steps = 60

            def plugins(self) -> Any:
                plugins = load_plugins()
                plugins.register(importlib.import_module("rlcore_fresh.plugin"), "fresh")
                return plugins

        conformance = Conformance()
        conformance.directory = tmp_path
        return conformance

    yield make
    for name in [name for name in sys.modules if name.partition(".")[0] == "rlcore_fresh"]:
        del sys.modules[name]


def test_the_scaffold_learns_from_all_that_is_promised(tests: Tests) -> None:
    conformance = tests()
    for rule, arguments in EVERY:
        getattr(conformance, rule)(*arguments)


@pytest.mark.parametrize("broken", BROKEN)
def test_a_trainer_that_breaks_one_line_fails(tests: Tests, broken: str) -> None:
    change, rule, arguments = BROKEN[broken]
    with pytest.raises(AssertionError):
        getattr(tests(change), rule)(*arguments)


def test_the_scaffold_in_ranks_learns_what_one_process_learns(tests: Tests) -> None:
    getattr(tests(IN_RANKS), RANKS)()


@pytest.mark.parametrize("wrong", WRONG_SUMS)
def test_a_wrong_sum_over_ranks_fails(tests: Tests, wrong: str) -> None:
    with pytest.raises(AssertionError):
        getattr(tests(IN_RANKS, WRONG_SUMS[wrong]), RANKS)()
