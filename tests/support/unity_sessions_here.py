"""Plays a scripted session (``unity_sessions.py``) with rlcore-unity, and compares it with what ML-Agents saw.

Agents have slots here and numbers there, so agents are matched by what they see, which no two of a crowd have alike;
those of a scene that see the same also do the same, and are compared in the order of what they got.
What rlcore does differently by contract is undone in :func:`expected`: rewards of an agent's first decision, ends of
agents that never acted, and messages in which no agent waits for an action do not exist here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from unity_contract import HISTOGRAM, MOST_RECENT, SUM
from unity_sessions import Session, actions_of, canonical

from rlcore import (
    Actions,
    AgentBatch,
    BehaviorSpec,
    EnvironmentSpec,
    EpisodeSeeds,
    RunContext,
    config_from_mapping,
    load_plugins,
)


@attrs.frozen
class Seen:
    """An agent in one message: its reward since its last decision, and the kind of its end.

    Attributes:
        seen: All that it sees, as :func:`canonical` writes it.
        reward: Nothing for a first decision.
        end: ``terminated`` or ``truncated``; nothing if it waits for an action.
        allowed: The options that it may choose, of all branches; nothing for an end.
    """

    seen: str
    reward: float | None
    group_reward: float | None
    end: str = ""
    allowed: tuple[bool, ...] | None = None


Message = dict[str, list[Seen]]  # by behavior with its team, sorted


@attrs.frozen
class Played:
    """The messages of one session.

    Attributes:
        messages: One for each decision.
        groups: For each of them, by behavior, which agents are together: sets of what they see.
        specs: Sensors and actions of each behavior, as the oracle writes them.
        statistics: By name what the summaries say: how many values, their mean, and all of a histogram.
    """

    messages: list[Message]
    groups: list[dict[str, frozenset[frozenset[str]]]]
    specs: dict[str, Any]
    statistics: dict[str, tuple[int, float, tuple[float, ...]]]


# ------------------------------------------------------------ rlcore


def play_here(session: Session, player: Path, directory: Path) -> Played:
    """Play with the environment of rlcore-unity."""
    width, height, quality, scale, target, capture = session.engine
    block = {
        "type": "unity", "executable": str(player), "no_graphics": True, "width": width, "height": height,
        "quality_level": quality, "time_scale": scale, "target_frame_rate": target, "capture_frame_rate": capture,
        "announced_version": session.announced, "num_areas": session.num_areas, "seed": session.seed,
        "agents": session.agents,
    }  # fmt: skip
    names = dict.fromkeys(name.partition("?")[0] for name in session.crowd["behaviors"])
    blocks = {name: {"trainer_type": "ppo"} for name in names}
    plugins = load_plugins()
    config = config_from_mapping({"environment": block, "behaviors": blocks}, plugins)
    run = RunContext(config, plugins, directory, session.seed, 1)
    environment = plugins.create(plugins.record(EnvironmentSpec, "unity"), settings=config.environment, run=run)
    messages = []
    groups = []
    try:
        environment.set_parameters(arrays(session.parameters.get(0, {})))
        batches = environment.reset(EpisodeSeeds(session.seed), np.zeros(1, np.int64))
        parameters = dict(session.parameters.get(0, {}))
        began: dict[str, Any] = {name: np.zeros(spec.slots, np.bool_) for name, spec in environment.behaviors.items()}
        for decision in range(1, session.exchanges + 2):
            specs = environment.behaviors
            messages.append(
                {name: sorted(rows_of(specs[name], batch, began[name]), key=order) for name, batch in batches.items()}
            )
            groups.append({name: together(specs[name], batch) for name, batch in batches.items()})
            if decision > session.exchanges:
                break
            parameters |= session.parameters.get(decision, {})
            environment.set_parameters(arrays(parameters))
            if decision in session.resets:
                batches = environment.reset(EpisodeSeeds(session.seed), np.zeros(1, np.int64))
                for slots in began.values():
                    slots[:] = False
            else:
                batches = environment.step({name: act(specs[name], batch) for name, batch in batches.items()})
        described = {name: described_here(spec) for name, spec in environment.behaviors.items()}
        summaries = environment.statistics.summaries(next(iter(described)))
        told = {key: (each.count, float(np.float32(each.mean)), each.values) for key, each in summaries.items()}
    finally:
        environment.close()
    return Played(messages, groups, described, told)


def arrays(parameters: Mapping[str, float]) -> dict[str, Any]:
    return {name: np.full(1, value, np.float64) for name, value in parameters.items()}


def contents(spec: BehaviorSpec, observations: Mapping[str, Any], rows: Any) -> list[bytes]:
    names = [each.name for each in spec.observations]
    return [canonical([observations[name][row] for name in names], channels_last=True) for row in rows]


def waiting(spec: BehaviorSpec, batch: AgentBatch) -> Any:
    return np.arange(spec.slots) if batch.needs_action is None else np.flatnonzero(batch.needs_action)


def rows_of(spec: BehaviorSpec, batch: AgentBatch, began: Any) -> Iterator[Seen]:
    """The agents of one behavior. ``began`` [slots] are those with an agent that has decided; it is updated."""
    shared = np.zeros(spec.slots, np.float32) if batch.group_reward is None else batch.group_reward
    ended = np.flatnonzero(batch.terminated | batch.truncated)
    assert began[ended].all()
    for row, slot in enumerate(ended):
        assert batch.final_observations is not None
        seen = contents(spec, batch.final_observations, [row])[0].hex()
        kind = "terminated" if batch.terminated[slot] else "truncated"
        yield Seen(seen, float(batch.reward[slot]), float(shared[slot]), kind)
    for slot in waiting(spec, batch):
        seen = contents(spec, batch.observations, [slot])[0].hex()
        allowed = (True,) * sum(spec.discrete) if batch.action_mask is None else tuple(batch.action_mask[slot].tolist())
        begins = not began[slot] or slot in ended
        assert not begins or slot in ended or not (batch.reward[slot] or shared[slot])
        reward = None if begins else float(batch.reward[slot])
        yield Seen(seen, reward, None if begins else float(shared[slot]), "", allowed)
    began[ended] = False
    began[waiting(spec, batch)] = True


def together(spec: BehaviorSpec, batch: AgentBatch) -> frozenset[frozenset[str]]:
    """Return the groups of the agents that wait for actions."""
    found: dict[int, set[str]] = {}
    if spec.group is not None:
        slots = waiting(spec, batch)
        for slot, seen in zip(slots, contents(spec, batch.observations, slots), strict=True):
            found.setdefault(int(spec.group[slot]), set()).add(seen.hex())
    return frozenset(map(frozenset, found.values()))


def act(spec: BehaviorSpec, batch: AgentBatch) -> Actions:
    """Actions of the agents that wait; the rows of the others are not read."""
    slots = waiting(spec, batch)
    mask = None if batch.action_mask is None else batch.action_mask[slots]
    reals, options = actions_of(contents(spec, batch.observations, slots), spec.continuous, spec.discrete, mask)
    continuous = np.zeros((spec.slots, spec.continuous), np.float32) if spec.continuous else None
    discrete = np.zeros((spec.slots, len(spec.discrete)), np.int64) if spec.discrete else None
    if continuous is not None:
        continuous[slots] = reals
    if discrete is not None:
        discrete[slots] = options
    return Actions(continuous, discrete)


def described_here(spec: BehaviorSpec) -> dict[str, Any]:
    sensors = [[each.name, list(each.shape), bool(each.goal)] for each in spec.observations]
    return {"sensors": sensors, "continuous": spec.continuous, "branches": list(spec.discrete)}


def order(row: Seen) -> tuple[Any, ...]:
    return row.seen, row.end, row.reward or 0.0, row.group_reward or 0.0, row.reward is None, row.allowed or ()


# ------------------------------------------------------------ ML-Agents


def expected(told: Mapping[str, Any], resets: Sequence[int] = ()) -> Played:
    """Convert a session that ML-Agents played to rlcore's contract; teams of a behavior are one behavior."""
    messages: list[Message] = []
    groups: list[dict[str, Any]] = []
    acting: dict[str, set[int]] = {}  # agents that had a decision and no end yet
    joined: Message | None = None
    for message in told["messages"]:
        if joined is None and len(messages) in (0, *resets):
            acting = {}
        now: Message = {}
        parties: dict[str, dict[Any, set[str]]] = {}
        waits = False
        for name, agents in message.items():
            rows = now.setdefault(name.partition("?")[0], [])
            known = acting.setdefault(name, set())
            for end in agents["ends"]:
                if end["agent"] in known:
                    known.remove(end["agent"])
                    kind = "truncated" if end["interrupted"] else "terminated"
                    rows.append(Seen(end["seen"], end["reward"], end["group_reward"], kind))
            of_groups = parties.setdefault(name.partition("?")[0], {})
            for each in agents["decisions"]:
                waits = True
                begins = each["agent"] not in known
                known.add(each["agent"])
                allowed = () if each["allowed"] is None else tuple(each["allowed"])
                reward = None if begins else each["reward"]
                rows.append(Seen(each["seen"], reward, None if begins else each["group_reward"], "", allowed))
                if each["group"]:
                    of_groups.setdefault((name, each["group"]), set()).add(each["seen"])
        if joined is not None:
            now = {name: joined.get(name, []) + now.get(name, []) for name in {**joined, **now}}
            joined = None
        if not waits:
            joined = now
            continue
        messages.append({name: sorted(rows, key=order) for name, rows in now.items()})
        groups.append({name: frozenset(map(frozenset, found.values())) for name, found in parties.items()})
    specs = {name.partition("?")[0]: spec for name, spec in told["specs"].items()}
    for spec in specs.values():
        if len(spec["sensors"]) == 1:
            spec["sensors"][0][0] = "observation"  # rlcore's name of an only one
    statistics = {}
    for name, values in told["statistics"].items():
        numbers = [value for value, _ in values]
        kept: dict[int, list[float]] = {MOST_RECENT: numbers[-1:], SUM: [sum(numbers)]}
        kind = int(values[0][1])
        shown = kept.get(kind, numbers)
        all_of_them = tuple(numbers) if kind == HISTOGRAM else ()
        statistics[name] = (len(shown), float(np.float32(np.mean(shown))), all_of_them)
    return Played(messages, groups, specs, statistics)


def journal(path: Path) -> list[dict[str, Any]]:
    """Read the journal without versions and arguments, which the two sides may choose freely."""
    handshake, *commands = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [{"seed and areas": [handshake["handshake"][0], handshake["handshake"][3]]}, *commands]


def first_difference(here: Played, there: Played) -> str:
    """Say where two sessions differ first; nothing if they do not."""
    for what in ("specs", "messages", "groups", "statistics"):
        ours = getattr(here, what)
        theirs = getattr(there, what)
        if ours == theirs:
            continue
        if what in ("specs", "statistics"):
            return f"{what}: {ours} instead of {theirs}"
        for number, (own, their) in enumerate(zip(ours, theirs, strict=False)):
            for name in {**own, **their}:
                if own.get(name) != their.get(name):
                    return f"{what}, message {number}, {name}: {own.get(name)} instead of {their.get(name)}"
        return f"{what}: {len(ours)} instead of {len(theirs)}"
    return ""
