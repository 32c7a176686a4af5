"""A small stand-in for Slurm: ``sbatch``, ``srun``, ``scontrol``, ``scancel`` and ``squeue`` on one machine.

``install(DIRECTORY)`` puts the commands into ``DIRECTORY/bin``. Each job has a process that starts its batch script,
sends signals as Slurm does, and starts the script again after ``scontrol requeue``. What it does like Slurm:

- ``#SBATCH`` lines: ``--job-name``, ``--array``, ``--nodes``, ``--ntasks-per-node``, ``--time``, ``--signal``,
  ``--requeue``, ``--open-mode`` and ``--output``.
- ``--signal=USR1@90``: the tasks of ``srun`` get USR1 before the limit, and not the batch shell; with ``B:``, it alone.
  At the limit all get CONT and TERM, and KILL after KillWait. Only what ``srun`` starts gets a signal, and
  not what that starts, except KILL.
- A requeued job keeps its id, has ``SLURM_RESTART_COUNT``, and truncates its output unless ``--open-mode=append``.
- An array is a job for each task. ``scontrol requeue`` takes ``ARRAYJOB_TASK`` and the task's own id.

Time is scaled by variables, because a test has seconds where a job has hours:

- ``FAKE_SLURM_LIMIT``: seconds to the limit, in place of ``--time``.
- ``FAKE_SLURM_NOTICE``: seconds before the limit, in place of those of ``--signal``.
- ``FAKE_SLURM_KILL_WAIT``: seconds from TERM to KILL.
- ``FAKE_SLURM_CLOCK``: a pattern of paths, relative to the directory of the submission. The time of an attempt begins
  when a file that matches is written, so that each attempt trains, on a machine of any speed. ``{task}`` is that of the
  array.
- ``FAKE_SLURM_ATTEMPTS``: from this attempt on, there is no limit.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

COMMANDS = ("sbatch", "srun", "scontrol", "scancel", "squeue")
LOOK = 0.02
HOST = "127.0.0.1"  # of every node


def state() -> Path:
    return Path(os.environ["FAKE_SLURM_STATE"])


def number(name: str, default: float) -> float:
    return float(os.environ.get(f"FAKE_SLURM_{name}", default))


def install(directory: Path, **scales: float | str) -> dict[str, str]:
    """Put the commands into ``directory/bin``; return the variables with which a program finds them."""
    programs = directory / "bin"
    programs.mkdir(parents=True)
    for name in COMMANDS:
        program = programs / name
        words = shlex.join([sys.executable, str(Path(__file__).resolve()), name])
        program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        program.chmod(0o755)
    (directory / "jobs").mkdir()
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "SBATCH_"))}
    environ["PATH"] = os.pathsep.join([str(programs), str(Path(sys.executable).parent), environ.get("PATH", "")])
    environ["FAKE_SLURM_STATE"] = str(directory / "jobs")
    return environ | {f"FAKE_SLURM_{name.upper()}": str(value) for name, value in scales.items()}


def wait(directory: Path, seconds: float) -> dict[str, Any]:
    """The records of all jobs when they have ended. Raises TimeoutError after some ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        jobs = {path.parent.name: read(path.parent) for path in (directory / "jobs").glob("*/job.json")}
        if jobs and all(job["state"] in ("COMPLETED", "FAILED", "CANCELLED") for job in jobs.values()):
            return jobs
        if time.monotonic() > deadline:
            raise TimeoutError(f"jobs still run after {seconds} s: {jobs}")
        time.sleep(0.2)


def read(job: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        record: dict[str, Any] = json.loads((job / "job.json").read_text())
        return record
    return {"state": "PENDING"}


def write(job: Path, **changes: Any) -> None:
    record = {**read(job), **changes}
    (job / "job.new").write_text(json.dumps(record))
    (job / "job.new").rename(job / "job.json")


# ---------------------------------------------------------------- sbatch


def sbatch(words: list[str]) -> int:
    options, (script, *arguments) = read_options(words)
    for line in Path(script).read_text().splitlines():
        if line.startswith("#SBATCH "):
            of_line, _ = read_options(shlex.split(line.removeprefix("#SBATCH "), comments=True))
            options = of_line | options
    tasks = [None] if "array" not in options else range_of(options["array"])
    first = 4000 + len(list(state().iterdir())) + os.getpid() % 500
    for offset, task in enumerate(tasks):
        job = state() / str(first + offset)
        (job / "tasks").mkdir(parents=True)
        write(job, state="PENDING", options=options, array=None if task is None else [first, task], attempts=[])
        subprocess.Popen(
            [sys.executable, __file__, "control", str(job), script, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(job / "control.log").open("ab"),
            start_new_session=True,
        )
    print(f"Submitted batch job {first}")
    return 0


def read_options(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """The options in front of other words. ``--name value`` is not understood for options that Slurm has as flags."""
    options: dict[str, str] = {}
    rest = list(words)
    while rest and rest[0].startswith("--"):
        name, equals, value = rest.pop(0).removeprefix("--").partition("=")
        if not equals and name not in ("requeue", "no-requeue", "exclusive", "kill-on-bad-exit"):
            value = rest.pop(0)
        options[name] = value
    return options, rest


def range_of(text: str) -> list[int]:
    tasks: list[int] = []
    for part in text.partition("%")[0].split(","):
        low, _, high = part.partition("-")
        tasks += range(int(low), int(high or low) + 1)
    return tasks


def seconds_of(text: str) -> float:
    """``minutes``, ``minutes:seconds`` or ``hours:minutes:seconds``."""
    parts = [int(part) for part in text.split(":")]
    if len(parts) == 3:
        return parts[0] * 3600 + parts[1] * 60 + parts[2]
    return parts[0] * 60 + (parts[1] if len(parts) == 2 else 0)


# ---------------------------------------------------------------- the process of a job


def control(words: list[str]) -> int:
    job = Path(words[0])
    script = words[1:]
    options = read(job)["options"]
    restarts = 0
    while True:
        (job / "requeue").unlink(missing_ok=True)
        begun = time.time()
        code, sent = attempt(job, script, options, restarts)
        # A requeue kills the script, so that the code of its last step says more.
        step = int((job / "step").read_text()) if (job / "step").exists() else code
        (job / "step").unlink(missing_ok=True)
        seconds = round(time.time() - begun, 2)
        record = {"code": code, "step": step, "signals": sent, "seconds": seconds}
        write(job, attempts=[*read(job)["attempts"], record])
        if (job / "cancelled").exists():
            write(job, state="CANCELLED", code=code)
            return 0
        if not (job / "requeue").exists():
            write(job, state="COMPLETED" if code == 0 else "FAILED", code=code)
            return 0
        restarts += 1


def attempt(job: Path, script: list[str], options: dict[str, str], restarts: int) -> tuple[int, list[str]]:
    """Run the batch script once. Returns its exit code and the signals that were sent."""
    record = read(job)
    name = options.get("job-name", "job")
    output = options.get("output", "slurm-%j.out").replace("%j", job.name).replace("%x", name)
    nodes = int(options.get("nodes", 1))
    tasks = nodes * int(options.get("ntasks-per-node", options.get("ntasks", 1)))
    environ = {
        **os.environ,
        "SLURM_JOB_ID": job.name,
        "SLURM_JOB_NAME": name,
        "SLURM_JOB_NUM_NODES": str(nodes),
        "SLURM_NNODES": str(nodes),
        "SLURM_NTASKS": str(tasks),
        "SLURM_JOB_NODELIST": f"node[1-{nodes}]" if nodes > 1 else "node1",
        "SLURM_SUBMIT_DIR": os.getcwd(),
    }
    task = ""
    if record["array"] is not None:
        first, index = record["array"]
        task = str(index)
        environ |= {"SLURM_ARRAY_JOB_ID": str(first), "SLURM_ARRAY_TASK_ID": task}
        output = output.replace("%A", str(first)).replace("%a", task)
    if restarts:
        environ["SLURM_RESTART_COUNT"] = str(restarts)
    mode = "ab" if options.get("open-mode") == "append" else "wb"
    with Path(output).open(mode) as log:
        shell = subprocess.Popen(
            ["bash", *script], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ, start_new_session=True
        )
    write(job, state="RUNNING", shell=shell.pid)
    sent = watched(job, shell, options, task, restarts)
    code = shell.wait()
    for pid in pids(job):  # a step ends with its job
        kill_all(pid)
    return (128 - code if code < 0 else code), sent


def watched(job: Path, shell: subprocess.Popen[bytes], options: dict[str, str], task: str, restarts: int) -> list[str]:
    """Send signals until the batch shell has ended."""
    limit = number("LIMIT", seconds_of(options.get("time", "1000:00:00")))
    match = re.fullmatch(r"(B:)?(?:SIG)?([A-Z0-9]+)(?:@(\d+))?", options.get("signal", ""))
    notice = number("NOTICE", float(match[3] or 60) if match else 0)
    if restarts + 1 >= number("ATTEMPTS", 10**9):
        limit = 10**9
    clock = os.environ.get("FAKE_SLURM_CLOCK", "").replace("{task}", task)
    begun = time.monotonic()
    since = time.time()
    ticking = not clock
    sent: list[str] = []
    while shell.poll() is None:
        time.sleep(LOOK)
        if not ticking:
            begun = time.monotonic()
            ticking = any(path.stat().st_mtime > since for path in Path.cwd().glob(clock))
            continue
        gone = time.monotonic() - begun
        if match and gone > limit - notice and match[2] not in sent:
            targets = [shell.pid] if match[1] else pids(job)
            send(targets, getattr(signal, f"SIG{match[2]}"))
            sent.append(match[2])
        if gone > limit and "TERM" not in sent:
            send([*pids(job), shell.pid], signal.SIGCONT)
            send([*pids(job), shell.pid], signal.SIGTERM)
            sent.append("TERM")
        requeued = (job / "requeue").exists() or (job / "cancelled").exists()
        if gone > limit + number("KILL_WAIT", 30) or requeued:
            for pid in [*pids(job), shell.pid]:
                kill_all(pid)
            if not requeued:
                sent.append("KILL")
            break
    return sent


def pids(job: Path) -> list[int]:
    return [int(path.name) for path in (job / "tasks").iterdir()]


def send(targets: list[int], what: int) -> None:
    for pid in targets:
        with suppress(ProcessLookupError):
            os.kill(pid, what)


def kill_all(pid: int) -> None:
    """Kill a process and all that it started, as the end of a job's cgroup does."""
    family = [pid]
    for member in family:
        with suppress(OSError):
            children = Path(f"/proc/{member}/task/{member}/children").read_text().split()
            family += map(int, children)
    for member in family:
        with suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)


# ---------------------------------------------------------------- what a batch script calls


def srun(words: list[str]) -> int:
    job = state() / os.environ["SLURM_JOB_ID"]
    options, command = read_options(words)
    nodes = int(os.environ["SLURM_NNODES"])
    count = int(options.get("ntasks", os.environ["SLURM_NTASKS"]))
    if "ntasks-per-node" in options:
        count = nodes * int(options["ntasks-per-node"])
    running = []
    for rank in range(count):
        node = rank * nodes // count
        environ = {
            **os.environ,
            "SLURM_PROCID": str(rank),
            "SLURM_NODEID": str(node),
            "SLURM_LOCALID": str(rank - node * count // nodes),
            "SLURMD_NODENAME": f"node{node + 1}",
        }
        task = subprocess.Popen(command, env=environ)
        (job / "tasks" / str(task.pid)).touch()
        running.append(task)
    for what in (signal.SIGINT, signal.SIGTERM):  # srun passes them on
        signal.signal(what, lambda what, _: send([task.pid for task in running if task.poll() is None], what))
    codes = []
    for task in running:
        code = task.wait()
        codes.append(128 - code if code < 0 else code)
        (job / "tasks" / str(task.pid)).unlink(missing_ok=True)
    (job / "step").write_text(str(max(codes)))
    return max(codes)


def scontrol(words: list[str]) -> int:
    what, *rest = words
    if what == "show" and rest[0] == "hostnames":
        nodes = re.fullmatch(r"node\[1-(\d+)\]", rest[1])
        print("\n".join([HOST] * (int(nodes[1]) if nodes else 1)))
        return 0
    if what == "requeue":
        job = named(rest[0])
        if job is None:
            print(f"slurm_requeue error: Invalid job id specified: {rest[0]}", file=sys.stderr)
            return 1
        if "requeue" not in read(job)["options"]:
            print("Requested operation is presently disabled for job", file=sys.stderr)
            return 1
        (job / "requeue").touch()
        return 0
    print(f"the stand-in has no scontrol {what}", file=sys.stderr)
    return 1


def named(text: str) -> Path | None:
    """The job of ``ID`` or ``ARRAYJOB_TASK``. Slurm takes the id of the whole array for all of its tasks."""
    if "_" not in text:
        job = state() / text
        return job if job.is_dir() else None
    first, _, task = text.partition("_")
    for job in state().iterdir():
        if read(job).get("array") == [int(first), int(task)]:
            return job
    return None


def scancel(words: list[str]) -> int:
    options, (text,) = read_options(words)
    job = named(text)
    if job is None:
        return 1
    if "signal" in options:
        send(pids(job), getattr(signal, f"SIG{options['signal'].removeprefix('SIG')}"))
    else:
        (job / "cancelled").touch()
    return 0


def squeue(words: list[str]) -> int:
    for job in sorted(state().iterdir()):
        print(job.name, read(job)["state"])
    return 0


if __name__ == "__main__":
    programs = {
        "control": control,
        "sbatch": sbatch,
        "srun": srun,
        "scontrol": scontrol,
        "scancel": scancel,
        "squeue": squeue,
    }
    sys.exit(programs[sys.argv[1]](sys.argv[2:]))
