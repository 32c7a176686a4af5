"""Plays a session as ML-Agents' own ``UnityEnvironment``, and writes what it saw. Runs in a Python that has that.

    PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python ORACLE/bin/python unity_oracle.py job.json

The job has ``session``, ``player`` (the executable), ``zeros`` (decisions with actions of zeros, and one more reset,
before the session begins), ``port`` and ``out``. The result is a file of JSON with, for each message, the agents by
behavior: what they see as the hexadecimal digits of :func:`unity_sessions.canonical`, reward, group, and mask or kind
of end. :func:`make_oracle` makes the Python.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unity_sessions import SESSIONS, Session, actions_of, canonical

VARIABLES = {"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
WITH = ("protobuf==3.20.3", "grpcio", "numpy", "cloudpickle", "filelock", "pillow", "pyyaml", "typing_extensions")


def make_oracle(directory: Path, version: str) -> Path:
    """Make a virtual environment with this version of mlagents-envs; return its Python.

    Its own pins exclude this Python, so it is installed without what it requires. Raises CalledProcessError where pip
    cannot install it.
    """
    venv.create(directory, with_pip=True)
    python = directory / "bin/python"
    pip = [str(python), "-m", "pip", "install", "--quiet", "--no-deps"]
    for what in (["--ignore-requires-python", f"mlagents-envs=={version}"], WITH):
        subprocess.run([*pip, *what], check=True, capture_output=True, text=True)
    return python


def play(session: Session, player: str, zeros: int, port: int) -> dict[str, Any]:
    """Play the session; return what was seen."""
    import mlagents_envs
    from mlagents_envs.environment import UnityEnvironment
    from mlagents_envs.side_channel.engine_configuration_channel import EngineConfigurationChannel
    from mlagents_envs.side_channel.environment_parameters_channel import EnvironmentParametersChannel
    from mlagents_envs.side_channel.stats_side_channel import StatsSideChannel

    mlagents_envs.__version__ = session.announced
    engine = EngineConfigurationChannel()
    parameters = EnvironmentParametersChannel()
    statistics = StatsSideChannel()
    environment = UnityEnvironment(
        player, base_port=port, seed=session.seed, no_graphics=True, num_areas=session.num_areas,
        side_channels=[engine, parameters, statistics],
    )  # fmt: skip
    messages: list[Any] = []

    def tell(decision: int) -> None:
        for name, value in session.parameters.get(decision, {}).items():
            parameters.set_float_parameter(name, value)

    try:
        engine.set_configuration_parameters(*session.engine)
        if zeros >= 0:
            environment.reset()
            for _ in range(zeros):
                environment.step()
        tell(0)
        environment.reset()
        messages.append(seen_by(environment, session))
        for decision in range(1, session.exchanges + 1):
            tell(decision)
            if decision in session.resets:
                environment.reset()
            else:
                act(environment, session)
                environment.step()
            messages.append(seen_by(environment, session))
            while not any(agents["decisions"] for agents in messages[-1].values()):  # the message has ends alone
                environment.step()
                messages.append(seen_by(environment, session))
        collected = statistics.get_and_reset_stats()
        told = {name: [[float(value), kind.value] for value, kind in each] for name, each in collected.items()}
        specs = {name: spec_of(spec, session) for name, spec in environment.behavior_specs.items()}
    finally:
        environment.close()
    return {"messages": messages, "statistics": told, "specs": specs}


def channels_last(session: Session) -> bool:
    return session.oracle == "0.28.0"


def spec_of(spec: Any, session: Session) -> dict[str, Any]:
    """The behavior: sensors with images as (height, width, channels), and actions."""
    sensors = []
    for each in spec.observation_specs:
        shape = tuple(each.shape)
        if len(shape) == 3 and not channels_last(session):
            shape = (*shape[1:], shape[0])
        sensors.append([each.name, list(shape), each.observation_type.value == 1])
    actions = spec.action_spec
    return {
        "sensors": sensors, "continuous": actions.continuous_size,
        "branches": list(map(int, actions.discrete_branches)),
    }  # fmt: skip


def seen_by(environment: Any, session: Session) -> dict[str, Any]:
    """The agents of the last message by behavior: those that wait for actions, and those whose episodes ended."""
    found = {}
    for name in environment.behavior_specs:
        decisions, ends = environment.get_steps(name)
        found[name] = {
            "decisions": [
                {
                    "agent": int(decisions.agent_id[row]),
                    "seen": canonical([each[row] for each in decisions.obs], channels_last(session)).hex(),
                    "reward": float(decisions.reward[row]),
                    "group": int(decisions.group_id[row]),
                    "group_reward": float(decisions.group_reward[row]),
                    "allowed": None
                    if decisions.action_mask is None
                    else [bool(not each) for branch in decisions.action_mask for each in branch[row]],
                }
                for row in range(len(decisions))
            ],
            "ends": [
                {
                    "agent": int(ends.agent_id[row]),
                    "seen": canonical([each[row] for each in ends.obs], channels_last(session)).hex(),
                    "reward": float(ends.reward[row]),
                    "group": int(ends.group_id[row]),
                    "group_reward": float(ends.group_reward[row]),
                    "interrupted": bool(ends.interrupted[row]),
                }
                for row in range(len(ends))
            ],
        }
    return found


def act(environment: Any, session: Session) -> None:
    import numpy as np
    from mlagents_envs.base_env import ActionTuple

    for name, spec in environment.behavior_specs.items():
        decisions, _ = environment.get_steps(name)
        if not len(decisions):
            continue
        allowed = None
        if decisions.action_mask is not None:
            allowed = ~np.concatenate(decisions.action_mask, axis=1)
        contents = [
            canonical([each[row] for each in decisions.obs], channels_last(session)) for row in range(len(decisions))
        ]
        actions = spec.action_spec
        reals, options = actions_of(contents, actions.continuous_size, actions.discrete_branches, allowed)
        environment.set_actions(name, ActionTuple(continuous=reals, discrete=options))


def main() -> None:
    job: Mapping[str, Any] = json.loads(Path(sys.argv[1]).read_text())
    result = play(SESSIONS[job["session"]], job["player"], job["zeros"], job["port"])
    Path(job["out"]).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
