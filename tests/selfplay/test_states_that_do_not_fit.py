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

DELETED = object()
RULES = Rules(kind="deaths", sizes=(2, 1), fixed=("rock",), settings={"result": "return", "window": 2})


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
    state = played(60, RULES).state()["Agent"]
    play = played(47, other_rules(UNFIT[case].get("rules", {})))
    message = UNFIT[case]["message"]
    change = UNFIT[case].get("change")
    before = play.state()
    with pytest.raises(RunStateError, match=message) as caught:
        play.trainers["Agent"].load_state_dict(with_entry(state, **change) if change else state)
    assert "\n" not in str(caught.value)
    assert difference(before, play.state()) is None
    play.run(10)


def arrays(state: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every array of a state, with the keys that lead to it."""
    for key, value in state.items():
        if isinstance(value, Mapping):
            yield from arrays(value, (*path, key))
        elif isinstance(value, np.ndarray):
            yield (*path, key), value


def test_every_array_is_refused_with_another_shape_or_type_and_nothing_changes() -> None:
    state = played(60, RULES).state()["Agent"]
    play = played(47, RULES)
    before = play.state()
    found = list(arrays({key: state[key] for key in ("self_play", "self_play_log")}))
    assert len(found) > 30
    for path, array in found:
        longer = np.concatenate([array, np.zeros((1, *array.shape[1:]), array.dtype)])
        for other in (longer, array[None], array.astype(np.float16)):
            with pytest.raises(RunStateError):
                pytest.fail(f"{path}: {play.trainers['Agent'].load_state_dict(damaged(state, path, other))}")
            assert difference(before, play.state()) is None, path
