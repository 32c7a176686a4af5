"""Self-play that is killed around swaps, snapshots, team changes and checkpoints continues byte for byte."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray
from resumed_games import difference
from selfplay_cases import SELF_PLAY

from rlcore import Run, generator_state, load_checkpoint, save_checkpoint
from rlcore_ghost.selfplay.trainer import GhostTrainer

pytestmark = pytest.mark.faults

TRAINER, CONTROLLER = "rlcore_ghost.selfplay.trainer:GhostTrainer", "rlcore_ghost.selfplay.controller:Controller"
# A function, the number of a call of it, and whether the call has ended.
POINTS = [
    (function, call, after)
    for function, calls in {
        f"{TRAINER}._swap": (5, 8, 11),
        f"{TRAINER}._save": (4, 7),
        f"{CONTROLLER}.change_team": (1, 3),
        "rlcore.storage.store:RunStore.begin_save": (2, 5),
        "rlcore.storage.checkpoints:write_checkpoint": (4,),
    }.items()
    for call in calls
    for after in (False, True)
]


def chosen(name: str, deep: bool) -> list[tuple[str, int, bool]]:
    """All points in a deep run; else two of them, others for each kind of run."""
    return POINTS if deep else POINTS[list(SELF_PLAY).index(name) :: len(POINTS) // 2]


@pytest.mark.parametrize("name", SELF_PLAY)
def test_self_play_killed_around_its_changes_and_resumed_equals_the_run_never_stopped(
    workplace: Any, whole_run: Any, assert_equal_from: Any, trial: Any, deep: bool, name: str
) -> None:
    settings = SELF_PLAY[name]
    whole = whole_run(**settings)
    for number, point in enumerate(chosen(name, deep)):
        trial()
        place = workplace(f"kill{number}", **settings)
        process = place.start(signalled=(*point, signal.SIGKILL))
        process.join(60)
        assert process.exitcode == -signal.SIGKILL, (point, place.stderr)
        steps = place.verify()
        assert steps and steps == whole.steps[: len(steps)] and len(steps) < len(whole.steps), point
        assert place.finish("--resume") == 0, place.stderr
        assert_equal_from(place, whole, steps[-1])
        assert place.content(steps[-1]) == whole.content(steps[-1])
        assert place.json("result.json")["behaviors"] == whole.json("result.json")["behaviors"]
        assert place.metrics() == whole.metrics()


GAME, LOG = "self_play", "self_play_log"
MEMORY = "PPO with memory"


def rotated(array: NDArray[Any]) -> NDArray[Any]:
    """Other values of the same kind: those of the next row where they differ, else larger ones."""
    turned = np.roll(array, 1, 0)
    return turned if not np.array_equal(turned, array) else ~array if array.dtype == np.bool_ else array + 1


def other(*path: str) -> Callable[[dict[str, Any]], None]:
    """Another value in the place of this entry."""

    def change(state: dict[str, Any]) -> None:
        for key in path[:-1]:
            state = state[key]
        value = state[path[-1]]
        state[path[-1]] = max(0, value - 20) if isinstance(value, int) else rotated(value)

    return change


def without_newest_snapshot(state: dict[str, Any]) -> None:
    state[GAME]["window"].pop()


def snapshots_swapped(state: dict[str, Any]) -> None:
    snapshots, window = state[GAME]["snapshots"], [str(place) for place in state[GAME]["window"]]
    snapshots[window[0]]["policy"], snapshots[window[1]]["policy"] = (
        snapshots[window[1]]["policy"], snapshots[window[0]]["policy"]
    )  # fmt: skip


def other_learning_team(state: dict[str, Any]) -> None:
    state[LOG]["learning_team"] = 3 - state[LOG]["learning_team"]


def without_pending(state: dict[str, Any]) -> None:
    pending = state[LOG]["pending"]
    assert len(pending["players"])
    pending.update({name: array[:0] for name, array in pending.items()})


def empty_seats(state: dict[str, Any]) -> None:
    state[GAME]["seats"] = np.full_like(state[GAME]["seats"], -1)


def forgotten(state: dict[str, Any]) -> None:
    assert state[GAME]["memory"].any()
    state[GAME]["memory"] *= np.nan  # weights are small, and so few actions depend on what is remembered


def other_assigned(state: dict[str, Any]) -> None:
    window, assigned = state[GAME]["window"], state[GAME]["assigned"]
    state[GAME]["assigned"] = np.where(assigned == window[0], window[-1], window[0])


def another_generator(state: dict[str, Any]) -> None:
    state[GAME]["generator"] = generator_state(np.random.default_rng(9))


def nothing(state: dict[str, Any]) -> None:
    """The comparison itself: nothing is spoiled."""


SPOILED: dict[str, tuple[str, Callable[[dict[str, Any]], None]]] = {
    **{f"nothing of {name}": (name, nothing) for name in SELF_PLAY},
    "window": ("PPO", without_newest_snapshot),
    "weights of snapshots": ("PPO", snapshots_swapped),
    "ratings": ("PPO", other(LOG, "elo", "ratings")),
    "rows of the match log": ("PPO", other(LOG, "log", "rows", "count")),
    "games that are not rated yet": ("PPO", without_pending),
    "learning team": ("PPO", other_learning_team),
    "opponents of each environment": (MEMORY, other_assigned),
    "opponents of open games": ("PPO", other(GAME, "place")),
    "seats": ("PPO", empty_seats),
    "memory of ghosts": (MEMORY, forgotten),
    "generator of opponents": ("PPO", another_generator),
    "results against opponents": ("PPO", other(LOG, "score")),
    "agents that have died": ("PPO", other(GAME, "done")),
    "open games": ("PPO", other(GAME, "playing")),
    **{
        f"count of {name}": (MEMORY, other(GAME, "counts", name))
        for name in ("acts", "ghost_steps", "swapped_at", "changed_at", "saves", "version")
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILED)
def test_the_comparison_notices_each_entry_of_self_play_that_is_spoiled(
    workplace: Any, whole_run: Any, name: str
) -> None:
    case, spoil = SPOILED[name]
    whole, place = whole_run(**SELF_PLAY[case]), workplace(**SELF_PLAY[case])
    at = whole.steps[4 if name == "memory of ghosts" else 5]  # ghosts that forget must change the result of a game
    place.copy_until(whole, at)
    state = load_checkpoint(place.checkpoints / str(at))
    spoil(state[min(key for key in state if key != "run")])
    save_checkpoint(place.checkpoints, at, state)
    config = yaml.safe_load((place.path / "config.yaml").read_text())
    settings = config["checkpoint_settings"] | {"resume": True}
    different = False
    with Run(config | {"checkpoint_settings": settings}) as run:
        for _ in run:
            later = [step for step in place.steps if step > at]
            different = any(step not in whole.steps or place.content(step) != whole.content(step) for step in later)
            if different:
                break
    equal = not different and place.steps == whole.steps and place.metrics() == whole.metrics()
    assert equal == (spoil is nothing)


RATINGS = ("Self-play/ELO", "Self-play/Opponent ELO", "Self-play/Win Rate", "Self-play/Learning Team")


def elo(place: Any) -> list[tuple[str, int, dict[str, float]]]:
    """Behavior, step, and statistics of ratings of each summary."""
    return [
        (line["behavior"], line["step"], {tag: line["stats"][tag] for tag in RATINGS if tag in line["stats"]})
        for line in place.metrics()
    ]


@pytest.mark.parametrize("name", ["PPO", "asymmetric, cut episodes"])
def test_ratings_the_log_the_pool_and_the_learning_team_are_restored_bit_for_bit(
    workplace: Any, whole_run: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Gate R3: nothing differs between the kill and the resume, and the curve of ratings has no step there."""
    whole, place = whole_run(**SELF_PLAY[name]), workplace(**SELF_PLAY[name])
    place.start(signalled=(*POINTS[4], signal.SIGKILL)).join(60)
    newest = load_checkpoint(place.checkpoints / str(place.steps[-1]))
    restored: dict[str, Any] = {}
    load = GhostTrainer.load_state_dict

    def loads(trainer: GhostTrainer, state: dict[str, Any]) -> None:
        load(trainer, state)
        restored[trainer.name] = trainer.state_dict()

    monkeypatch.setattr(GhostTrainer, "load_state_dict", loads)
    config = yaml.safe_load((place.path / "config.yaml").read_text())
    with Run(config | {"checkpoint_settings": config["checkpoint_settings"] | {"resume": True}}) as run:
        run.train()
    assert restored and newest.keys() == {*restored, "run"}
    for behavior, state in restored.items():
        assert (LOG in state) == (behavior == min(restored))
        for entry in {GAME, LOG} & state.keys():
            assert difference(newest[behavior][entry], state[entry]) is None
    ours, theirs = elo(place), elo(whole)
    assert len(ours) == len(theirs) > 4 and any(stats for *_, stats in ours)
    for (behavior, step, stats), (other_behavior, other_step, other_stats) in zip(ours, theirs, strict=True):
        assert (behavior, step, stats.keys()) == (other_behavior, other_step, other_stats.keys())
        assert all(abs(stats[tag] - other_stats[tag]) < 1e-9 for tag in stats)


def test_self_play_interrupted_between_two_checkpoints_and_resumed_equals_the_run_never_stopped(
    workplace: Any, whole_run: Any, assert_equal_from: Any
) -> None:
    """A stop saves one more checkpoint, which rates no games that an update was to rate."""
    whole, place = whole_run(**SELF_PLAY["PPO"]), workplace(**SELF_PLAY["PPO"])
    stop = (f"{TRAINER}.observe", 47, True, signal.SIGTERM)
    assert place.finish(signalled=stop) == 128 + signal.SIGTERM, place.stderr
    stopped = place.verify()[-1]
    assert stopped not in whole.steps
    waiting = load_checkpoint(place.checkpoints / str(stopped))["Agent"][LOG]["pending"]
    assert len(waiting["players"]), "choose another step: no game waits for an update"
    assert place.finish("--resume") == 0, place.stderr
    assert_equal_from(place, whole, stopped)
    assert place.metrics() == whole.metrics()
