"""Evaluations, and behaviors that do not learn, keep what each agent remembers until its episode ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.batches import Actions, AgentBatch
from rlcore.contracts.policy import MemoryPolicy, Player, Policy
from rlcore.contracts.results import EvaluationResult
from rlcore.run.evaluation.episodes import PlayedEnvironment, play
from rlcore_devkit.environments import IdentityEnvironment


class Counting:
    """Remembers how often each row has acted, and what it saw last."""

    memory_size = 2

    def __init__(self) -> None:
        self.before: list[NDArray[np.float32]] = []

    def act(
        self,
        observations: Mapping[str, NDArray[Any]],
        action_mask: NDArray[np.bool_] | None = None,
        deterministic: bool = True,
        memory: NDArray[np.float32] | None = None,
    ) -> Actions:
        assert memory is not None
        self.before.append(memory.copy())
        memory[:, 0] += 1
        memory[:, 1] = 7
        return Actions(discrete=np.zeros((len(memory), 1), np.int64))

    def seed(self, seed: int) -> None:
        """Nothing is drawn."""


def batch(*, ended: tuple[int, ...] = (), idle: tuple[int, ...] = (), aborted: tuple[int, ...] = ()) -> AgentBatch:
    def flags(rows: tuple[int, ...]) -> NDArray[np.bool_]:
        return np.isin(np.arange(3), rows)

    return AgentBatch(
        {},
        np.zeros(3, np.float32),
        flags(ended),
        flags(()),
        needs_action=~flags(idle) if idle else None,
        aborted=flags(aborted) if aborted else None,
    )


def test_each_agent_remembers_its_own_steps_until_its_episode_ends() -> None:
    player = Player(Counting(), 3)
    assert isinstance(player.policy, MemoryPolicy)
    counts = []
    for current in (batch(), batch(ended=(1,)), batch(idle=(0,)), batch(idle=(0, 2), aborted=(2,)), batch()):
        player.observe(current)
        player.act(current)
        assert player.memory is not None
        counts.append(player.memory[:, 0].tolist())
    assert counts == [[1, 1, 1], [2, 1, 2], [2, 2, 3], [2, 3, 0], [3, 4, 1]]
    player.begin()
    assert not player.memory.any()


class Drawing(Counting):
    """Draws an option of a thousand in each row."""

    def seed(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)

    def act(self, *arguments: Any, **more: Any) -> Actions:
        rows = len(super().act(*arguments, **more).discrete)  # type: ignore[arg-type]
        return Actions(discrete=self.generator.integers(1000, size=(rows, 1)))


def draws(player: Player, steps: int) -> list[Any]:
    chosen = [player.act(batch(), deterministic=False).discrete for _ in range(steps)]
    return [each.tolist() for each in chosen if each is not None]


def played(environment: IdentityEnvironment, episodes: int, **more: Any) -> tuple[EvaluationResult, list[Any]]:
    """Return what an evaluation tells, and how often each row had acted in its episode before each step."""
    policy = Counting()
    policies: dict[str, Policy] = {"Identity": policy}
    result = play(policies, PlayedEnvironment(environment), episodes, seed=1, deterministic=True, recorders={}, **more)
    return result, [before[:, 0].tolist() for before in policy.before]


def test_a_player_with_a_seed_draws_and_remembers_after_a_resume_what_it_would_have() -> None:
    whole = Player(Drawing(), 3, seed=7)
    stopped = Player(Drawing(), 3, seed=7)
    other = Player(Drawing(), 3, seed=8)
    expected = draws(whole, 6)
    first = draws(stopped, 2)
    assert first == expected[:2] != draws(other, 2) and first[0] != first[1]
    resumed = Player(Drawing(), 3, seed=7)
    resumed.load_state_dict(stopped.state_dict())
    resumed.policy.seed(99)  # as an evaluation between two steps does
    assert draws(resumed, 4) == expected[2:]
    assert resumed.memory is not None and whole.memory is not None and (resumed.memory == whole.memory).all()


def test_an_evaluation_begins_every_episode_without_memory() -> None:
    """An episode that reaches ``max_episode_steps`` runs on, and the environment is reset for the next one."""
    for length in (1, 4):
        _, before = played(IdentityEnvironment(3, discrete=(2,), episode_length=length), 6)
        assert before == 2 * [[k] * 3 for k in range(length)]
    result, before = played(IdentityEnvironment(1, discrete=(2,), episode_length=50), 2, max_episode_steps=3)
    assert result.behaviors["Identity"].cut == 2 and before == [[0], [1], [2]] * 2
