"""Ends, time limits, resets and seeds of a compiled program, calculated by hand."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jax_worlds import playing
from one_behavior import begin, move
from workspace import ROOT

from rlcore import Actions, Environment, EpisodeSeeds, RunStateError
from rlcore_devkit.conformance.states import assert_equal
from rlcore_devkit.playing import play

pytest.importorskip("jax", reason="JAX is not installed: pip install './plugins/jax[pgx]'")

N = 5
LIMIT = 6


@pytest.fixture(scope="module")
def open_walk(walk: Any) -> Callable[..., Environment]:
    """Create N walks with a time limit: ``open_walk(reset_rows)``."""
    from rlcore_jax.program import Program

    program = cache(lambda reset_rows: Program(walk, N, LIMIT, reset_rows))
    return lambda reset_rows=None: playing(program(reset_rows))


def moved(environment: Environment, moves: Any) -> Any:
    """Step with moves, one for all or [N], half of each in both parts of the action."""
    return move(environment, np.asarray(moves) / 2)


def key_of(env: int, episode: int, step: int) -> Any:
    import jax

    fold_in = jax.random.fold_in
    return fold_in(fold_in(fold_in(jax.random.key(3), env), episode), step)


def uniform(env: int, episode: int, step: int) -> np.float32:
    import jax

    return np.float32(jax.random.uniform(key_of(env, episode, step)))


def first(env: int, episode: int) -> np.float32:
    import jax

    return np.float32(jax.random.uniform(key_of(env, episode, 0), (1,))[0])


def test_random_numbers_follow_from_run_environment_episode_and_step(open_walk: Callable[..., Environment]) -> None:
    environment = open_walk()
    place = begin(environment, EpisodeSeeds(3, 7), 2).observations["place"][:, 0].copy()
    assert place.tolist() == [first(7 + env, 2) for env in range(N)]
    batch = moved(environment, 0)
    wanted = [place[env] + uniform(7 + env, 2, 1) for env in range(N)]
    np.testing.assert_allclose(batch.observations["place"][:, 0], wanted, rtol=1e-6)


@pytest.mark.parametrize("ends", [[], [3], [0, 2, 4], [0, 1, 2, 3, 4]], ids=len)
@pytest.mark.parametrize("reset_rows", [None, 2])
def test_only_rows_that_ended_begin_again(
    open_walk: Callable[..., Environment], ends: list[int], reset_rows: int | None
) -> None:
    environment = open_walk(reset_rows)
    place = begin(environment).observations["place"][:, 0].copy()
    moves = np.zeros(N)
    moves[ends] = 9
    batch = moved(environment, moves)
    reached = np.array([place[env] + moves[env] + uniform(env, 0, 1) for env in range(N)])
    assert batch.ended.tolist() == ends and batch.terminated.nonzero()[0].tolist() == ends
    assert not batch.truncated.any()
    assert environment.episodes.tolist() == [int(env in ends) for env in range(N)]
    np.testing.assert_allclose(batch.reward, reached - place, rtol=1e-5)
    if ends:
        finals = batch.final_observations
        np.testing.assert_allclose(finals["place"][:, 0], reached[ends], rtol=1e-6)
        np.testing.assert_allclose(finals["square"][:, 0, 1], reached[ends] ** 2, rtol=1e-5)
    else:
        assert batch.final_observations is None
    seen = batch.observations["place"][:, 0]
    for env in range(N):
        wanted = first(env, 1) if env in ends else reached[env]
        np.testing.assert_allclose(seen[env], wanted, rtol=1e-6)
    # The next step draws with the numbers of its own episode.
    again = moved(environment, 0).observations["place"][:, 0]
    for env in range(N):
        numbers = (1, 1) if env in ends else (0, 2)
        np.testing.assert_allclose(again[env] - seen[env], uniform(env, *numbers), atol=2e-6)


def test_the_time_limit_truncates_where_the_task_does_not_end(open_walk: Callable[..., Environment]) -> None:
    environment = open_walk()
    begin(environment)
    for step in range(1, LIMIT):
        batch = moved(environment, -1)
        assert not batch.ended.size, step
    moves = np.full(N, -1.0)
    moves[1] = 50  # terminates in the very step of the limit
    batch = moved(environment, moves)
    assert batch.terminated.tolist() == [False, True, False, False, False]
    assert batch.truncated.tolist() == [True, False, True, True, True]
    assert (batch.final_observations["place"][[0, 2, 3, 4], 0] < 1).all()
    for step in range(1, LIMIT):  # the limit counts the steps of the episode
        assert not moved(environment, -1).ended.size, step
    assert moved(environment, -1).truncated.all()


def test_the_number_of_rows_that_are_reset_together_changes_nothing(open_walk: Callable[..., Environment]) -> None:
    others = [play(open_walk(rows), 60) for rows in (1, 2, 3, 99)]
    ends = 0
    for ours, *theirs in zip(play(open_walk(), 60), *others, strict=True):
        ends += len(ours["Agent"].ended)
        for each in theirs:
            assert_equal(ours, each)
    assert ends > 2 * N


def test_environments_of_a_block_play_what_they_play_among_all(
    open_walk: Callable[..., Environment], walk: Any
) -> None:
    everything = open_walk()
    block = playing(walk, 2, LIMIT)
    ours = begin(everything)
    theirs = begin(block, EpisodeSeeds(3, first_env=3))
    for step in range(20):
        assert ours.take(np.array([3, 4])).observations["place"].tolist() == theirs.observations["place"].tolist()
        moves = np.linspace(-1, 2 + step % 3, N)
        ours = moved(everything, moves)
        theirs = moved(block, moves[3:])
    assert everything.episodes[3:].tolist() == block.episodes.tolist() != [0, 0]


def test_what_is_written_into_a_batch_does_not_reach_the_simulator(open_walk: Callable[..., Environment]) -> None:
    plain = open_walk()
    spoiled = open_walk()
    for ours, theirs in zip(play(plain, 20), play(spoiled, 20), strict=True):
        assert_equal(ours, theirs)
        batch = theirs["Agent"]
        for array in (*batch.observations.values(), batch.reward, *(batch.final_observations or {}).values()):
            array.fill(77)


def test_actions_may_change_after_the_step(open_walk: Callable[..., Environment]) -> None:
    environment = open_walk()
    other = open_walk()
    begin(environment), begin(other)
    actions = Actions(continuous=np.full((N, 2), 0.25, np.float32))
    batch = environment.step({"Agent": actions})["Agent"]
    assert actions.continuous is not None
    actions.continuous.fill(9)
    assert batch.observations["place"].tolist() == moved(other, 0.5).observations["place"].tolist()


IN_A_NEW_PROCESS = """
import sys
import numpy as np
from conftest import WalkState, walk
sys.path.append(sys.argv[3])
from test_episodes import LIMIT, N, moved, playing
saved = dict(np.load(sys.argv[1]))
environment = playing(walk.__wrapped__(), N, LIMIT)
environment.load_state_dict({"carry": saved})
places = [moved(environment, 0.75).observations["place"] for _ in range(12)]
np.save(sys.argv[2], np.stack(places))
"""


def test_a_saved_state_continues_in_a_new_process(open_walk: Callable[..., Environment], tmp_path: Path) -> None:
    environment = open_walk()
    begin(environment)
    for _ in range(4):
        moved(environment, np.linspace(0, 2, N))
    state = environment.state_dict()  # type: ignore[attr-defined]
    saved = "state/place state/key state/moved keys episodes steps pending"
    assert set(state["carry"]) == set(saved.split())
    np.savez(tmp_path / "saved.npz", **state["carry"])
    ours = np.stack([moved(environment, 0.75).observations["place"] for _ in range(12)])
    files = [str(tmp_path / "saved.npz"), str(tmp_path / "places.npy"), str(ROOT / "tests/support")]
    subprocess.run([sys.executable, "-c", IN_A_NEW_PROCESS, *files], check=True, cwd=Path(__file__).parent)
    assert np.load(tmp_path / "places.npy").tobytes() == ours.tobytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda carry: carry.pop("steps"), "'steps' is missing"),
        (lambda carry: carry.update(other=np.zeros(N)), "'other' is unknown here; the simulator has state/place"),
        (lambda carry: carry.update(steps=np.zeros(N + 1, np.int32)), "not an array of int32 of shape"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(
    open_walk: Callable[..., Environment], change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    environment = open_walk()
    begin(environment)
    state = environment.state_dict()  # type: ignore[attr-defined]
    change(state["carry"])
    with pytest.raises(RunStateError, match=message):
        open_walk().load_state_dict(state)  # type: ignore[attr-defined]


def test_a_step_is_compiled_once(walk: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Not once more for the state after a step, whose types are the strong ones, nor for a restored one."""
    import jax
    import jax.numpy as jnp

    class Traced(type(walk)):  # type: ignore[misc]
        steps = 0

        def init(self, key: Any) -> Any:
            return super().init(key)._replace(moved=jnp.asarray(0.0))  # of a weak type

        def step(self, state: Any, action: Any, key: Any) -> Any:
            self.steps += 1
            return super().step(state, action, key)

    simulator = Traced()
    environment = playing(simulator, N, LIMIT)
    begin(environment)
    for _ in range(3):
        moved(environment, 0)
    environment.load_state_dict(environment.state_dict())  # type: ignore[attr-defined]
    with jax.log_compiles():
        moved(environment, 0)
        assert "Compiling" not in caplog.text
        jax.jit(lambda number: number + 1)(1)
        assert "Compiling" in caplog.text
    assert simulator.steps == 1
