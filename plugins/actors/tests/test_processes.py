"""Actors in processes: those that a run starts, those that connect, and those that are killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rlcore import ConfigError, EnvironmentFailed, Run, UnsupportedSpace, python_command
from rlcore_actors.messages import Channel, NotTrusted, read_token

PATIENCE = 300.0  # seconds; machines that run tests are busy
MakeRun = Callable[..., Run]


def train(run: Run, after: Callable[[int], None] = lambda epoch: None) -> dict[str, Any]:
    """Train to the end, with ``after(EPOCH)`` after each summary; return the means of the last one by tag."""
    with run:
        for number, epoch in enumerate(run):
            last = epoch.behaviors["Agent"]
            after(number)
    return {"steps": last.steps, **{tag: summary.mean for tag, summary in last.stats.items()}}


def actors_of(process: int) -> list[int]:
    """The processes of actors that descend from ``process``."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                command = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1]), command
    found = []
    for number, (parent, command) in parents.items():
        is_actor = b"rlcore_actors.program" in command and not command[-1].endswith(b"ending_process.py")
        guarded = parents.get(parent, (0, []))
        is_guarded = any(word.endswith(b"ending_process.py") for word in guarded[1])
        if is_actor and is_guarded and guarded[0] == process:
            found.append(number)
    return found


def wait_for(condition: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{condition} within {seconds} s")


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


def kills(make_run: MakeRun, count: int, max_steps: int) -> dict[str, Any]:
    """Train with two actors of which ``count`` are killed, each after a summary in which both play."""
    left = count

    def kill(epoch: int) -> None:
        nonlocal left
        if left:
            victims = wait_for(lambda: actors_of(os.getpid()))
            os.kill(victims[left % len(victims)], signal.SIGKILL)
            left -= 1
            wait_for(lambda: len(actors_of(os.getpid())) < 2 or len(set(actors_of(os.getpid())) - set(victims)))

    run = make_run("corridor", {"count": 2, "fragment": 8}, max_steps=max_steps, summary_freq=max_steps // (count + 2))
    stats = train(run, kill)
    assert not left
    return stats


@needs_proc
def test_a_killed_actor_costs_its_fragment_and_is_started_again(make_run: MakeRun) -> None:
    stats = kills(make_run, 1, max_steps=6_000)
    assert stats["steps"] >= 6_000
    assert stats["Environment/Worker Restarts"] == 1
    assert stats["Environment/Aborted Episodes"] <= 2  # the open episodes of the actor's two environments
    assert actors_of(os.getpid()) == []


@needs_proc
@pytest.mark.faults
def test_ten_killed_actors_cost_their_fragments(make_run: MakeRun) -> None:
    stats = kills(make_run, 10, max_steps=60_000)
    assert stats["steps"] >= 60_000
    assert stats["Environment/Worker Restarts"] == 10
    assert stats["Environment/Aborted Episodes"] <= 20
    assert stats["Environment/Cumulative Reward"] > 0.9  # and it has learned meanwhile


def test_summaries_have_lags_queue_and_dropped_fragments(make_run: MakeRun) -> None:
    stats = train(make_run("corridor", {"count": 2, "fragment": 8, "queue": 3, "max_lag": 0}, max_steps=1_280))
    assert stats["Policy/Version Lag"] == stats["Policy/Largest Version Lag"] == 0  # all older ones were dropped
    assert stats["Actors/Dropped Fragments"] > 0
    assert stats["Actors/Played Steps"] == stats["steps"] + 16 * stats["Actors/Dropped Fragments"]
    assert 0 <= stats["Actors/Queue Length"] <= 3
    assert stats["Actors/Connected"] in (1, 2)  # on a busy machine, one may still start


@pytest.mark.parametrize(
    ("environment", "options", "kind", "message"),
    [
        ("coridor", {}, ConfigError, "environment.id: unknown environment 'coridor'"),
        pytest.param("corridor", {"lenght": 3}, ConfigError, "environment.options", marks=pytest.mark.faults),
    ],
)
def test_a_mistake_in_an_actor_is_reported_as_in_one_process(
    make_run: MakeRun, environment: str, options: Mapping[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        train(make_run(environment, {"count": 1}, options=options))


FAULTY = """
import os
from rlcore import EnvironmentSpec, hookimpl
from rlcore_devkit.environments import TinyCorridor, identity_continuous

class Breaking(TinyCorridor):
    def step(self, actions):
        self.played = getattr(self, "played", 0) + 1
        if self.played > 300:
            raise RuntimeError("the simulator broke")
        return super().step(actions)

class Turns(TinyCorridor):
    def step(self, actions):
        batches = super().step(actions)
        for batch in batches.values():
            batch.needs_action = batch.reward > 1
        return batches

def make(settings, run):
    kind = {"breaking": Breaking, "turns": Turns}[settings.id]
    return kind(run.num_envs, run.behavior_names[0])

@hookimpl
def rlcore_environments():
    return [EnvironmentSpec(name="testing", target=__name__ + ":make", summary="an environment that fails")]
"""


@pytest.fixture
def faulty(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "faulty.py"
    path.write_text(FAULTY)
    return {"plugins": {"local": [str(path)]}}


@pytest.mark.faults
def test_an_environment_that_breaks_is_made_again_within_limits(make_run: MakeRun, faulty: dict[str, Any]) -> None:
    stats = train(make_run("breaking", {"count": 1}, blocks=faulty, max_steps=2_000))
    assert stats["steps"] >= 2_000 and stats["Environment/Worker Restarts"] >= 1
    with pytest.raises(EnvironmentFailed, match=r"in step: RuntimeError: the simulator broke; it is not started again"):
        train(make_run("breaking", {"count": 1, "on_failure": "fail"}, blocks=faulty, run_id="fail", max_steps=2_000))


def test_agents_that_take_turns_are_refused(make_run: MakeRun, faulty: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedSpace, match="the executor actors"):
        train(make_run("turns", {"count": 1}, blocks=faulty))


# ------------------------------------------------------------ actors that connect


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def actor(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """``actor(PORT, TOKEN_FILE)``: ``rlcore actor`` as a process, killed at the end of the test."""
    started: list[subprocess.Popen[str]] = []

    def start(port: int, token: Path, host: str = "127.0.0.1") -> subprocess.Popen[str]:
        words = ("actor", f"{host}:{port}", "--token-file", str(token))
        process = subprocess.Popen(
            python_command("-m", "rlcore", *words),
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_an_actor_that_connects_takes_a_place_and_ends_with_the_run(
    make_run: MakeRun, tmp_path: Path, actor: Callable[..., subprocess.Popen[str]]
) -> None:
    port = free_port()
    token = tmp_path / "token"
    token.write_text("a token of many characters\n")
    workers = {"count": 2, "local": 1, "listen": f"127.0.0.1:{port}", "token_file": str(token), "fragment": 8}
    elsewhere = actor(port, token)
    connected: list[float] = []
    run = make_run("corridor", workers, max_steps=200_000, summary_freq=640)
    with run:
        for epoch in run:
            connected.append(epoch.behaviors["Agent"].stats["Actors/Connected"].mean)
            if connected[-1] == 2:
                break
    out, _ = elsewhere.communicate(timeout=PATIENCE)
    assert elsewhere.returncode == 0, out


def test_actors_with_another_token_are_refused(
    make_run: MakeRun, tmp_path: Path, actor: Callable[..., subprocess.Popen[str]]
) -> None:
    port = free_port()
    wrong = tmp_path / "wrong"
    wrong.write_text("another token of many characters")
    # An address that is not 127.0.0.1: the actor that the run starts connects there too.
    host = "127.0.0.2" if sys.platform == "linux" else "127.0.0.1"
    workers = {"count": 2, "local": 1, "listen": f"{host}:{port}", "allow_public_bind": True}
    run = make_run("corridor", workers, max_steps=200_000)
    with run:
        next(iter(run))
        own = tmp_path / "results/run/actors.token"
        assert own.stat().st_mode & 0o777 == 0o600 and len(read_token(own)) > 16
        stranger = actor(port, wrong, host)
        out, _ = stranger.communicate(timeout=PATIENCE)
    assert stranger.returncode == 2 and "the learner has another token; give the token of this run" in out


@pytest.mark.faults
def test_an_actor_ends_at_its_deadline_when_the_learner_is_gone(
    tmp_path: Path, actor: Callable[..., subprocess.Popen[str]]
) -> None:
    """The learner is killed: its own actor ends at once, the other one after ``reconnect`` seconds."""
    port = free_port()
    token = tmp_path / "token"
    token.write_text("a token of many characters\n")
    configuration = tmp_path / "run.yaml"
    configuration.write_text(
        "plugins: {local: [rlcore_devkit.hooks]}\n"
        "preset: none\n"
        "environment:\n"
        "  {type: testing, id: corridor, num_envs: 2, workers: {executor: actors, count: 2, local: 1,"
        f" listen: '127.0.0.1:{port}', token_file: {token}, reconnect: 1.0}}}}\n"
        "behaviors: {Agent: {trainer_type: appo, max_steps: 100000000, summary_freq: 1000}}\n"
    )
    learner = subprocess.Popen(
        python_command("-m", "rlcore", "run", str(configuration), "--run-id", "run"),
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        elsewhere = actor(port, token)
        metrics = tmp_path / "results/run/metrics.jsonl"
        wait_for(lambda: metrics.is_file() and '"Actors/Connected": 2.0' in metrics.read_text())
        (own,) = actors_of(learner.pid)
    finally:
        learner.kill()
        learner.wait()
    wait_for(lambda: not is_alive(own))
    out, _ = elsewhere.communicate(timeout=PATIENCE)
    assert elsewhere.returncode == 3 and "no learner takes this actor" in out


def test_a_message_of_neither_arrays_nor_json_is_refused() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    channel = Channel.__new__(Channel)
    channel.socket = ours
    for data in (b"\x80\x04cos\nsystem\n", b"\xff" * 16):
        theirs.sendall(len(data).to_bytes(8, "little") + data)
        with pytest.raises(NotTrusted, match="a message cannot be read"):
            channel.receive(5.0)
    theirs.sendall((1 << 40).to_bytes(8, "little"))
    with pytest.raises(NotTrusted, match="1099511627776 bytes"):
        channel.receive(5.0)
    ours.close()
    theirs.close()


def test_a_short_token_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("short")
    with pytest.raises(ConfigError, match="16 characters or more, and this one 5"):
        read_token(path)
