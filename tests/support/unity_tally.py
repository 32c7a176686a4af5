"""Counts at both ends of a session with a test player: decisions, ended episodes and their returns.

A *round* goes from one reset by Python to the next. :class:`Tally` counts what the player sends, by the numbers of
agents; :class:`CountedEnvironment` counts what a run receives of its environment, by slots. Neither knows of the other.
As a local plugin, this module counts for every run, and writes ``received.json`` into its directory::

    plugins: {local: [unity_tally]}
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from rlcore import Actions, AgentBatch, Environment, EpisodeSeeds, RunContext, hookimpl


@attrs.define
class Count:
    """The agents of one behavior in one round."""

    decisions: int = 0
    episodes: int = 0
    returns: list[float] = attrs.field(factory=list)  # of the ended episodes

    def as_json(self) -> dict[str, Any]:
        return {**attrs.asdict(self), "returns": sorted(round(each, 3) for each in self.returns)}


Round = dict[str, Count]


def written(rounds: Iterable[Round], path: Path) -> None:
    path.write_text(json.dumps([{name: each[name].as_json() for name in sorted(each)} for each in rounds]))


class Tally:
    """Counts what a player sends."""

    def __init__(self) -> None:
        self.rounds: list[Round] = []
        self._open: dict[int, float] = {}  # returns of the agents that have decided, by number

    def reset(self) -> None:
        """Python has reset the player."""
        self.rounds.append({})
        self._open = {}

    def send(self, reports: Iterable[Any]) -> None:
        """The player sends these :class:`unity_contract.Report`."""
        if not self.rounds:
            return
        for report in reports:
            count = self.rounds[-1].setdefault(report.behavior.partition("?")[0], Count())
            total = self._open.pop(report.agent, None)
            if total is not None:
                total += float(np.float32(report.reward)) + float(np.float32(report.group_reward))
            if not report.done:
                count.decisions += 1
                self._open[report.agent] = total or 0.0
            elif total is not None:
                count.episodes += 1
                count.returns.append(total)


class CountedEnvironment:
    """An environment whose batches are counted; all else is that of the one within."""

    def __init__(self, environment: Environment, path: Path) -> None:
        self._environment, self._path = environment, path
        self.rounds: list[Round] = []
        self._begin()

    def _begin(self) -> None:
        self._returns = {name: np.zeros(spec.slots) for name, spec in self._environment.behaviors.items()}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._environment, name)

    def add_slots(self) -> None:
        self._environment.add_slots()  # type: ignore[attr-defined]
        self._begin()

    def reset(self, seeds: EpisodeSeeds, episodes: Any) -> Mapping[str, AgentBatch]:
        self.rounds.append({})
        for returns in self._returns.values():
            returns[:] = 0
        return self._count(self._environment.reset(seeds, episodes))

    def step(self, actions: Mapping[str, Actions]) -> Mapping[str, AgentBatch]:
        return self._count(self._environment.step(actions))

    def close(self) -> None:
        written(self.rounds, self._path)
        self._environment.close()

    def _count(self, batches: Mapping[str, AgentBatch]) -> Mapping[str, AgentBatch]:
        for name, batch in batches.items():
            count = self.rounds[-1].setdefault(name, Count())
            returns = self._returns[name]
            assert batch.aborted is None
            acts = np.ones(len(returns), np.bool_) if batch.needs_action is None else batch.needs_action
            count.decisions += int(acts.sum())
            returns += batch.reward
            if batch.group_reward is not None:
                returns += batch.group_reward
            count.episodes += len(batch.ended)
            count.returns += returns[batch.ended].tolist()
            returns[batch.ended] = 0
        return batches


@hookimpl(wrapper=True)
def rlcore_create_environment(run: RunContext) -> Generator[None, Environment, Environment]:
    environment = yield
    if run.purpose != "train":
        return environment
    return CountedEnvironment(environment, run.directory / "received.json")
