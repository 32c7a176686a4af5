"""A state that does not fit raises one RunStateError, and changes nothing."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import yaml
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


UNFIT = yaml.safe_load((Path(__file__).parent / "data/states.yaml").read_text(encoding="utf-8"))


def other_rules(changes: Mapping[str, Any]) -> Rules:
    settings = {**RULES.settings, **changes.get("settings", {})}
    lists = {name: tuple(value) for name, value in changes.items() if isinstance(value, list)}
    return attrs.evolve(RULES, **{**changes, **lists, "settings": settings})


def with_entry(state: Mapping[str, Any], path: str, value: Any = DELETED) -> dict[str, Any]:
    """The state with another entry; where it has an array, a number fills one like it and a list is another array."""
    *way, last = path.split("/")
    old: Any = state
    for key in way:
        old = old[key]
    old = old.get(last)
    if isinstance(old, np.ndarray) and value is not DELETED:
        value = np.array(value, old.dtype) if isinstance(value, list) else np.full_like(old, value)
    return damaged(state, (*way, last), value)


@pytest.mark.parametrize("case", UNFIT)
def test_a_state_of_another_run_raises_one_clear_error_and_changes_nothing(case: str) -> None:
    state, play = played(60, RULES).state()["Agent"], played(47, other_rules(UNFIT[case].get("rules", {})))
    message, change = UNFIT[case]["message"], UNFIT[case].get("change")
    before = play.state()
    with pytest.raises(RunStateError, match=message) as caught:
        play.trainers["Agent"].load_state_dict(with_entry(state, **change) if change else state)
    assert "\n" not in str(caught.value)
    assert difference(before, play.state()) is None
    play.run(10)
