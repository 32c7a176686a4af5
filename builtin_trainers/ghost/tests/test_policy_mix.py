"""`PolicyMix` without a framework: which policies act together, and with which rows."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

from rlcore.contracts.environment import Actions
from rlcore_ghost import PolicyMix, PolicyStack

Seen = dict[str, NDArray[Any]]


@attrs.define(eq=False)
class Scripted:
    """Adds ``number`` to each observation; records the rows of each call and its seed."""

    number: float
    calls: list[int] = attrs.field(factory=list)
    seeded: int | None = None

    def act(self, observations: Seen, action_mask: Any = None, deterministic: bool = True) -> Actions:
        self.calls.append(len(observations["seen"]))
        return Actions(observations["seen"] + np.float32(self.number))

    def seed(self, seed: int) -> None:
        self.seeded = seed


@attrs.define(eq=False)
class Stack:
    """Holds numbers of one ``kind``."""

    kind: str
    log: list[Any]
    memory_size: int = 0
    numbers: dict[int, float] = attrs.field(factory=dict)
    places: NDArray[np.int64] = attrs.field(factory=lambda: np.empty(0, np.int64))

    def put(self, place: int, policy: Any) -> bool:
        if getattr(policy, "kind", None) != self.kind:
            return False
        self.log.append(("put", place))
        self.numbers[place] = policy.number
        return True

    def assign(self, places: NDArray[np.integer[Any]]) -> None:
        self.log.append(("assign", places.tolist()))
        self.places = np.array(places)

    def act(
        self, observations: Seen, action_mask: Any = None, deterministic: bool = True, memory: Any = None
    ) -> Actions:
        own = np.flatnonzero(self.places >= 0)
        numbers = np.array([self.numbers[place] for place in self.places[own].tolist()], np.float32)
        return Actions(observations["seen"][own] + numbers[:, None])

    def seed(self, seed: int) -> None:
        self.log.append(("seed", seed))


@attrs.define(eq=False)
class Frozen(Scripted):
    kind: str = "small"
    log: list[Any] = attrs.field(factory=list)

    def state_dict(self) -> dict[str, Any]:
        return {"number": self.number}

    def make_stack(self) -> PolicyStack | None:
        return None if self.kind == "alone" else Stack(self.kind, self.log)


def seen(rows: int) -> Seen:
    return {"seen": np.arange(rows, dtype=np.float32)[:, None]}


def added(mix: PolicyMix, rows: int) -> list[float]:
    """Return the number that each row's policy added."""
    actions = mix.act(seen(rows)).continuous
    assert actions is not None
    return (actions - seen(rows)["seen"])[:, 0].tolist()


def test_what_fits_is_stacked_and_the_rest_acts_by_itself() -> None:
    log: list[Any] = []
    frozen = [Frozen(10.0 * number, log=log) for number in (1, 2)]
    large, alone, scripted = Frozen(30.0, kind="large"), Frozen(40.0, kind="alone"), Scripted(50.0)
    mix = PolicyMix([frozen[0], large, scripted, frozen[1], alone], np.array([3, 0, 2, 1, 4, 3, 2]))
    assert added(mix, 7) == [20.0, 10.0, 50.0, 30.0, 40.0, 20.0, 50.0]
    told = [("put", 0), ("put", 3), ("assign", [3, 0, -1, -1, -1, 3, -1])]
    assert [entry for entry in log if entry[0] != "seed"] == told
    assert [policy.calls for policy in (*frozen, large, alone, scripted)] == [[], [], [], [1], [2]]


def test_each_policy_and_each_stack_is_seeded_differently_and_alike_every_time() -> None:
    def seeds(seed: int) -> list[int | None]:
        logs: list[list[Any]] = [[], []]
        scripted = [Scripted(1.0), Scripted(2.0)]
        frozen = [Frozen(1.0, log=logs[0]), Frozen(2.0, kind="large", log=logs[1])]
        PolicyMix([*scripted, *frozen], np.zeros(1, np.int64)).seed(seed)
        return [*(policy.seeded for policy in scripted), *(log[-1][1] for log in logs)]

    assert len(set(seeds(1))) == 4
    assert seeds(1) == seeds(1) and not set(seeds(1)) & set(seeds(2))


@pytest.mark.parametrize("index", [[0, 2, 1], [0, 1, -1], [0, 1]])
def test_an_index_that_does_not_fit_is_refused(index: list[int]) -> None:
    mix = PolicyMix([Frozen(1.0), Scripted(2.0)], np.array(index))
    with pytest.raises(ValueError, match="; set it to 3 indices from 0 to 1"):
        mix.act(seen(3))
