#!/usr/bin/env python3
"""A game of Godot RL Agents' protocol without Godot: tests of environments and of what may go wrong start it.

It has three agents, of the policies ``walker`` (agents 0 and 1) and ``flyer`` (agent 2). The episode number e of agent
a has 3 + a decisions; at the decision t of it the agent observes ``obs`` = [a, e, t], and a walker also ``camera_2d``,
a picture [2, 3, 3] of which every byte is t, and ``lamp``, the option t % 3 of three. The reward is t plus the number
that the actions add up to. Even episodes terminate; odd ones are cut off.

Arguments, each as --name=value: ``port``, ``ends`` (told: with the info of ended episodes; plain: without; cut:
TimeLimit.truncated without the final observation), ``form`` (old: one description for all agents, and no names),
``linger``, the seconds that it takes to end, ``fault``, one of FAULTS, ``at``, the decision at which it begins, and
``times``, a file that lets only its first starts have the fault. Run without a port, it lists the faults.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Message = dict[str, Any]

VECTOR = {"size": [3], "space": "box"}
OBSERVATIONS = {
    "obs": VECTOR,
    "camera_2d": {"size": [2, 3, 3], "space": "box"},
    "lamp": {"size": 3, "space": "discrete"},
}
ACTIONS = {
    "move": {"size": 2, "action_type": "continuous"},
    "push": {"size": 3, "action_type": "discrete"},
    "aim": {"size": 1, "action_type": "continuous"},
    "jump": {"size": 2, "action_type": "discrete"},
}
TURN = {"turn": {"size": 4, "action_type": "discrete"}}
POLICIES = ("walker", "walker", "flyer")


class Game:
    """The agents of the game."""

    def __init__(self, arguments: dict[str, str]) -> None:
        self.arguments = arguments
        self.episodes = [0, 0, 0]
        self.steps = [0, 0, 0]

    def info(self) -> Message:
        if self.arguments.get("form") == "old":
            spaces = {"observation_space": {"obs": VECTOR}, "action_space": TURN}
            return {"type": "env_info", "n_agents": 3, **spaces}
        seen = [OBSERVATIONS if name == "walker" else {"obs": VECTOR} for name in POLICIES]
        done = [ACTIONS if name == "walker" else TURN for name in POLICIES]
        return {
            "type": "env_info", "n_agents": 3, "observation_space": seen, "action_space": done,
            "agent_policy_names": list(POLICIES),
        }  # fmt: skip

    def seen(self, agent: int) -> Message:
        step = self.steps[agent]
        found: Message = {"obs": [agent, self.episodes[agent], step]}
        if POLICIES[agent] == "walker" and self.arguments.get("form") != "old":
            found |= {"camera_2d": bytes([step] * 18).hex(), "lamp": step % 3}
        return found

    def reset(self) -> Message:
        self.episodes = [episode + any(self.steps) for episode in self.episodes]
        self.steps = [0, 0, 0]
        return {"type": "reset", "obs": [self.seen(agent) for agent in range(3)]}

    def act(self, actions: list[Message]) -> Message:
        answer: Message = {"type": "step", "obs": [], "reward": [], "done": [], "info": []}
        for agent, action in enumerate(actions):
            self.steps[agent] += 1
            numbers = [each for part in action.values() for each in (part if isinstance(part, list) else [part])]
            over = self.steps[agent] >= 3 + agent
            cut = self.episodes[agent] % 2 == 1
            info: Message = {}
            if over:
                info = {"terminal_observation": self.seen(agent), "TimeLimit.truncated": cut, "score": 10.0 * agent}
            answer["reward"].append(self.steps[agent] + sum(numbers))
            answer["done"].append(over)
            if over:
                self.episodes[agent] += 1
                self.steps[agent] = 0
                if self.arguments.get("ends") == "cut":
                    del info["terminal_observation"]
            answer["info"].append(info)
            answer["obs"].append(self.seen(agent))
        if self.arguments.get("ends") == "plain":
            del answer["info"]
        return answer


def packed(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def _encoded(change: Callable[[Message], Any]) -> Callable[[Message], bytes]:
    """A fault that changes the message."""

    def fault(message: Message) -> bytes:
        changed = change(message)
        return packed(json.dumps(message if changed is None else changed).encode())

    return fault


def _agent(**changes: Any) -> Callable[[Message], bytes]:
    """A fault in the description of the walkers, or in the observation of the first one."""

    def change(message: Message) -> None:
        describes = message["type"] == "env_info"
        key = "observation_space" if describes else "obs"
        for agent in range(2 if describes else 1):
            message[key][agent] = {**message[key][agent], **changes}

    return _encoded(change)


def _set(**changes: Any) -> Callable[[Message], bytes]:
    return _encoded(lambda message: {**message, **changes})


def _replaced(old: bytes, new: bytes) -> Callable[[Message], bytes]:
    return lambda message: packed(json.dumps(message).encode().replace(old, new, 1))


def _act(action: Callable[[], Any]) -> Callable[[Message], bytes]:
    def fault(message: Message) -> bytes:
        print("the last words of the game", flush=True)
        action()
        return b""

    return fault


def _crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _half(message: Message) -> bytes:
    data = packed(json.dumps(message).encode())
    return data[: len(data) // 2]


# What is sent in place of the answer to env_info, whose name begins with "info", or to an action.
FAULTS: dict[str, Callable[[Message], bytes]] = {
    "info_exit": _act(lambda: sys.exit(3)),
    "info_hang": _act(lambda: time.sleep(600)),
    "info_step": _set(type="step"),
    "info_no_agents": _set(n_agents=0),
    "info_agents_text": _set(n_agents="three"),
    "info_agents_many": _set(n_agents=1_000_000_000),
    "info_agents_differ": _set(n_agents=4),
    "info_no_spaces": _encoded(lambda message: {"type": "env_info", "n_agents": 3}),
    "info_space_list": _set(observation_space=[1, 2, 3]),
    "info_space_empty": _set(observation_space=[{}, {}, {}]),
    "info_space_unknown": _agent(obs={"size": [3], "space": "dict"}),
    "info_size_zero": _agent(obs={"size": [0], "space": "box"}),
    "info_size_negative": _agent(obs={"size": [-3], "space": "box"}),
    "info_size_text": _agent(obs={"size": "big", "space": "box"}),
    "info_size_huge": _agent(obs={"size": [65536, 65536], "space": "box"}),
    "info_size_none": _agent(obs={"space": "box"}),
    "info_key_hidden": _agent(**{"\x1b[2J": VECTOR}),
    "info_action_unknown": _set(action_space=[{"turn": {"size": 4, "action_type": "hybrid"}}] * 3),
    "info_action_huge": _set(action_space=[{"turn": {"size": 10**12, "action_type": "continuous"}}] * 3),
    "info_names_path": _set(agent_policy_names=["../../etc/passwd"] * 3),
    "info_names_few": _set(agent_policy_names=["walker"]),
    "info_names_numbers": _set(agent_policy_names=[1, 2, 3]),
    "info_agents_unlike": _set(agent_policy_names=["walker", "walker", "walker"]),
    "info_ticks": _set(physics_ticks_per_second=30),
    "exit": _act(lambda: sys.exit(4)),
    "leave": _act(lambda: sys.exit(0)),
    "crash": _act(_crash),
    "hang": _act(lambda: time.sleep(600)),
    "half": _half,
    "http": lambda message: b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    "huge": lambda message: struct.pack("<I", 2_000_000_000) + b"x" * 1000,
    "empty": lambda message: packed(b""),
    "not_json": lambda message: packed(b'{"type": "step", obs}'),
    "not_text": lambda message: packed(b"\xff\xfe\x00" * 10),
    "deep": lambda message: packed(b"[" * 100_000),
    "long_number": lambda message: packed(b'{"type": ' + b"9" * 10_000 + b"}"),
    "array": lambda message: packed(b"[1, 2]"),
    "two_answers": lambda message: packed(json.dumps(message).encode()) * 2,
    "wrong_type": _set(type="reset"),
    "no_obs": _set(obs=None),
    "few_obs": _encoded(lambda message: {**message, "obs": message["obs"][:2]}),
    "obs_text": _set(obs=["a", "b", "c"]),
    "obs_missing": _encoded(lambda message: message["obs"][0].pop("obs") and None),
    "obs_short": _agent(obs=[1.0, 2.0]),
    "obs_ragged": _agent(obs=[1.0, [2.0], 3.0]),
    "obs_words": _agent(obs=["1", "2", "3"]),
    "obs_null": _agent(obs=[1.0, None, 3.0]),
    "obs_nan": _agent(obs=[1.0, float("nan"), 3.0]),
    "obs_godot_nan": _replaced(b'"obs": [0,', b'"obs": [nan,'),
    "obs_infinite": _agent(obs=[1.0, 1e300, 3.0]),
    "image_short": _agent(camera_2d="00" * 17),
    "image_odd": _agent(camera_2d="0" * 35),
    "image_words": _agent(camera_2d="not an image"),
    "image_list": _agent(camera_2d=[0] * 18),
    "option_large": _agent(lamp=3),
    "option_negative": _agent(lamp=-1),
    "option_fraction": _agent(lamp=0.5),
    "reward_text": _set(reward=["1", 2, 3]),
    "reward_null": _set(reward=[None, 2, 3]),
    "reward_true": _set(reward=[True, 2, 3]),
    "reward_nan": _set(reward=[1, float("nan"), 3]),
    "reward_huge": _set(reward=[1, 1e300, 3]),
    "reward_digits": _set(reward=[1, 10**400, 3]),
    "reward_few": _set(reward=[1]),
    "done_text": _set(done=["yes", False, False]),
    "done_few": _set(done=[]),
    "info_of_ends": _set(done=[True, False, False], info=[7, {}, {}]),
    "info_few": _set(done=[True, False, False], info=[{}]),
    "cut_text": _set(done=[True, False, False], info=[{"TimeLimit.truncated": "yes"}, {}, {}]),
    "final_short": _set(done=[True, False, False], info=[{"terminal_observation": {"obs": [1]}}, {}, {}]),
    "final_text": _set(done=[True, False, False], info=[{"terminal_observation": "gone"}, {}, {}]),
}


def _received(connection: socket.socket) -> Message:
    def exactly(size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = connection.recv(size - len(data))
            if not piece:
                sys.exit(0)
            data += piece
        return data

    return dict(json.loads(exactly(struct.unpack("<I", exactly(4))[0])))


def _is_faulty(arguments: dict[str, str]) -> bool:
    if "times" not in arguments:
        return True
    left = Path(arguments["times"])
    count = int(left.read_text()) if left.exists() else 0
    left.write_text(str(max(0, count - 1)))
    return count > 0


def main() -> None:
    arguments = dict(word[2:].split("=", 1) for word in sys.argv[1:] if word.startswith("--") and "=" in word)
    if "port" not in arguments:
        print("\n".join(["start_exit", "start_silent", *FAULTS]))
        return
    print("a game begins, with", *sys.argv[1:], flush=True)
    fault = arguments.get("fault", "") if _is_faulty(arguments) else ""
    if fault == "start_exit":
        sys.exit(2)
    if fault == "start_silent":
        time.sleep(600)
    connection = socket.create_connection(("127.0.0.1", int(arguments["port"])))
    game = Game(arguments)
    decisions = 0
    while True:
        message = _received(connection)
        kind = message["type"]
        if kind == "handshake":
            assert message["major_version"] == "0", "another version"
            continue
        if kind == "close":
            time.sleep(float(arguments.get("linger", "0")))
            print("closed its files", flush=True)
            return
        if kind == "env_info":
            answer = game.info()
        elif kind == "reset":
            answer = game.reset()
        else:
            decisions += 1
            answer = game.act(message["action"])
        begins = kind == ("env_info" if fault.startswith("info_") and fault not in OF_ENDS else "action")
        faulty = fault and begins and (kind == "env_info" or decisions >= int(arguments.get("at", "1")))
        connection.sendall(FAULTS[fault](answer) if faulty else packed(json.dumps(answer).encode()))


OF_ENDS = {"info_of_ends", "info_few"}

if __name__ == "__main__":
    main()
