"""A state that does not fit raises one RunStateError, and changes nothing."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import numpy as np
import pytest
from resumed_games import Rules, difference, played

from rlcore import RunStateError
from rlcore_ghost.selfplay.match_log import STATE_ENTRY
from rlcore_ghost.selfplay.trainer import ENTRY

DELETED = object()
RULES = Rules(kind="deaths", sizes=(2, 1), fixed=("rock",), settings={"result": "return", "window": 2})


def leaves(state: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All values of a state, mappings included, by their path."""
    for key, value in state.items():
        yield (*path, key), value
        if isinstance(value, Mapping):
            yield from leaves(value, (*path, key))


# Values of other types and shapes, by the type of an entry; the first one deletes it.
DAMAGES: dict[type, list[Any]] = {
    Mapping: [DELETED, "x", 5],
    bool: [DELETED, "x", 2],
    str: [DELETED, 5, None],
    int: [DELETED, "x", -1, 1.5, None, True],
    float: [DELETED, "x", -1, 1.5, None, True],
}


def damages(value: Any) -> list[Any]:
    if isinstance(value, np.ndarray):
        longer = np.zeros((len(value) + 1, *value.shape[1:]), value.dtype)
        return [DELETED, "x", longer, value.astype(np.float16), value[None]]
    if isinstance(value, list | tuple):
        return [DELETED, "x", 5, [*value, None]]
    return DAMAGES[Mapping if isinstance(value, Mapping) else type(value)]


def unfrozen(state: Any) -> Any:
    """A copy that can be changed."""
    if isinstance(state, Mapping):
        return {key: unfrozen(value) for key, value in state.items()}
    return copy.deepcopy(state)


def damaged(state: Mapping[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    copied: dict[str, Any] = unfrozen(state)
    entry = copied
    for key in path[:-1]:
        entry = entry[key]
    if value is DELETED:
        del entry[path[-1]]
    else:
        entry[path[-1]] = value
    return copied


# Entries of any number of values: without some of them, a state is that of another run.
ANY_NUMBER = ("snapshots", "results")


def accepted(path: tuple[str, ...], damage: Any) -> bool:
    """Whether a state may have such an entry."""
    if damage is DELETED:  # earlier checkpoints are without "acting"
        return path[-1] == "acting" or path[-2:-1] in [(name,) for name in ANY_NUMBER]
    return "generator" in path and isinstance(damage, int | float)  # numpy converts them


def test_every_damaged_entry_raises_and_changes_nothing() -> None:
    [trainer], [state] = played(47, RULES).trainers.values(), played(60, RULES).state().values()
    before = trainer.state_dict()
    tried = 0
    for path, value in leaves({key: state[key] for key in (ENTRY, STATE_ENTRY)}):
        for damage in damages(value):
            if accepted(path, damage) or path[-1] == "initial":  # for those who read the state of another run
                continue
            what = f"{'/'.join(path)} is {damage!r}"
            with pytest.raises(RunStateError):
                pytest.fail(f"{what}: loads {trainer.load_state_dict(damaged(state, path, damage))}")
            assert difference(before, trainer.state_dict()) is None, what
            tried += 1
    assert tried > 400


def entry(*path: str, value: Any) -> Any:
    return lambda state: damaged(state, path, value)


TWO = {"Agent": (0,), "Other": (1,)}
SNAPSHOTS = (ENTRY, "snapshots")
UNFIT: dict[str, tuple[Rules, Any, str]] = {
    "without self-play": (RULES, entry(ENTRY, value=DELETED), "the checkpoint was saved without self_play; remove the"),
    "without ratings": (RULES, entry(STATE_ENTRY, value=DELETED), "self_play in other behaviors; resume with the"),
    "fewer environments": (attrs.evolve(RULES, envs=2), None, r"'team' is an array of int64 of shape \(3,\), not .*2"),
    "another number of teams": (attrs.evolve(RULES, sizes=(1, 1, 1)), None, r"the teams \[0, 1\], and .* \[0, 1, 2\]"),
    "other teams": (attrs.evolve(RULES, sizes=(1, 1)), None, r"'Agent' is an array of bool of shape \(9,\), not"),
    "players in another order": (
        RULES, entry(STATE_ENTRY, "log", "names", value=["rock", "Agent", *"abcdefghijklmnop"]), "players rock, Agent",
    ),
    "more behaviors": (attrs.evolve(RULES, behaviors=TWO), None, "behaviors Agent, this .* in Agent, Other; resume"),
    "other opponents": (attrs.evolve(RULES, fixed=("paper",)), None, "fixed_opponents rock, this .* paper"),
    "fewer opponents": (attrs.evolve(RULES, fixed=()), None, "fixed_opponents rock, this configuration has none"),
    "learn_from": (
        attrs.evolve(RULES, settings={**RULES.settings, "learn_from": "all"}), None,
        "learned from 6 agents at a time, this configuration from 9; resume with the learn_from",
    ),
    "a place without a policy": (RULES, entry(ENTRY, "place", value=np.full(9, 77)), "'place' names place 77, where"),
    "a window of nothing": (RULES, entry(ENTRY, "window", value=[77]), "'window' names places without a snapshot"),
    "a snapshot without a place": (RULES, entry(*SNAPSHOTS, "x", value={}), "'snapshots' has the places .*x"),
    "a snapshot of a fixed opponent": (RULES, entry(*SNAPSHOTS, "0", value={}), "'snapshots' has the places .*0"),
    "a policy of another shape": (
        RULES, entry(*SNAPSHOTS, "1", "policy", value={"number": np.zeros(2, np.int64)}), r"'number' is .* \(2,\)",
    ),
    "seats of others": (RULES, entry(ENTRY, "seats", value=np.full(6, 5)), "agents in seats that are not theirs"),
    "a team that is not there": (RULES, entry(STATE_ENTRY, "learning_team", value=9), "names team 9 of 2"),
    "a result of a stranger": (RULES, entry(STATE_ENTRY, "results", "99", value=[1.0, 1]), "for the player '99' of"),
    "a result without a number": (RULES, entry(STATE_ENTRY, "results", "0", value=[1.0, 0.5]), "'number' is 0.5, not"),
    "players without names": (RULES, entry(STATE_ENTRY, "players", value=np.full((3, 2), 99)), "player without a name"),
    "fewer ratings": (
        RULES, entry(STATE_ENTRY, "elo", value={"ratings": np.zeros(1), "advantages": np.zeros(0)}), "1 ratings for",
    ),
    "a generator of another kind": (
        RULES, entry(ENTRY, "generator", "bit_generator", value="MT19937"), "is not the state of a generator",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", UNFIT)
def test_a_state_of_another_run_raises_one_clear_error_and_changes_nothing(case: str) -> None:
    rules, change, message = UNFIT[case]
    state, play = played(60, RULES).state()["Agent"], played(47, rules)
    before = play.state()
    with pytest.raises(RunStateError, match=message) as caught:
        play.trainers["Agent"].load_state_dict(state if change is None else change(state))
    assert "\n" not in str(caught.value)
    assert difference(before, play.state()) is None
    play.run(10)


def test_a_behavior_whose_ratings_another_one_has_is_refused_alone() -> None:
    two, one = played(60, RULES, behaviors=TWO), played(60, RULES, behaviors={"Other": (0, 1)})
    with pytest.raises(RunStateError, match="self_play in other behaviors"):
        one.trainers["Other"].load_state_dict(two.state()["Other"])
