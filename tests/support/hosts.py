"""Hosts on this machine, with a network between them that tests cut: Linux namespaces, for which root is needed.

A host has its own network, process table, hostname, ``/tmp``, ``/dev/shm`` and ``/proc``, and shares the disk. Its
address is 10.77.0.NUMBER and its name ``hostNUMBER``. Its process 1 is this file, run as a program: if it is killed,
the kernel kills all processes of the host at once, and it ends with the process that made the host. Namespaces have no
names, so nothing is left behind, whatever ends the test.

The hosts are at a bridge of the kernel, or at the switch of ``lossy_switch.py``, whose links have delay and loss.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

SUPPORT = Path(__file__).parent
SWITCH = SUPPORT / "lossy_switch.py"
PROGRAMS = ("ip", "unshare", "nsenter", "mount")
READY_SECONDS = 60.0
COVERED = ("/tmp", "/dev/shm")  # every host has its own
# Of the outermost process: commands of a host see the variables of the test, but for these.
HIDDEN = ("PYTEST_DEBUG_TEMPROOT", "TMPDIR")


def problem() -> str | None:
    """Why this machine cannot have such hosts; None if it can."""
    if sys.platform != "linux":
        return "hosts are made of namespaces, which only Linux has"
    if os.geteuid() != 0:
        return "hosts are made of namespaces, which needs root"
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"hosts need the programs {', '.join(missing)} (util-linux, iproute2)"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "mount", "-t", "proc", "proc", "/proc"],
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode:
        return f"this machine does not allow namespaces: {tried.stderr.strip()}"
    return None


def switch_problem() -> str | None:
    """Why this machine cannot have hosts at a slow or lossy switch; None if it can."""
    if not os.path.exists("/dev/net/tun"):
        return "a slow or lossy link needs /dev/net/tun"
    return problem()


class Host:
    """A host: its process 1, and the link to the others.

    Attributes:
        number: Its number, from 1.
        name: Its hostname.
        address: Its IP address.
        folder: A directory of its own on the shared disk, in which its commands start.
        pid: Number of its process 1, as this process sees it.
    """

    def __init__(self, number: int, folder: Path) -> None:
        self.number = number
        self.name = f"host{number}"
        self.address = f"10.77.0.{number}"
        self.folder = folder
        self.pid = 0
        self._outer: subprocess.Popen[str] | None = None

    @property
    def is_up(self) -> bool:
        return self._outer is not None and self._outer.poll() is None

    def boot(self, shared: Path) -> None:
        """Start process 1, in namespaces of its own."""
        self.folder.mkdir(exist_ok=True)
        command = [
            "unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--",
            sys.executable, __file__, self.name, str(shared),
        ]  # fmt: skip
        log = self.folder / "boot.log"  # `unshare` has its say too when its process 1 is killed
        with log.open("w") as errors:
            self._outer = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd="/",
                start_new_session=True,
            )
        assert self._outer.stdout is not None
        ready = self._outer.stdout.readline()
        assert ready == "ready\n", f"{self.name} did not start: {log.read_text()}"
        children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children").read_text().split()
        self.pid = int(children[0])

    def command(self, words: Sequence[str | Path]) -> list[str]:
        """The command that runs ``words`` on this host, in its folder."""
        entered = ["nsenter", "-t", str(self.pid), "--net", "--mount", "--uts", "--ipc", "--pid", "--"]
        return [*entered, "env", "-C", str(self.folder), *map(str, words)]

    def lose_power(self) -> None:
        """Kill all processes at once. Cut the link before: the kernel would say good-bye for them."""
        assert self._outer is not None
        os.kill(self.pid, signal.SIGKILL)
        self._outer.wait(30)

    def halt(self) -> None:
        """End the host at the end of a test."""
        if self._outer is not None:
            self._outer.kill()  # unshare kills process 1
            self._outer.wait(30)
            for stream in (self._outer.stdin, self._outer.stdout):
                assert stream is not None
                stream.close()


class Hosts:
    """Hosts at a switch, and the commands that run on them.

    Attributes:
        folder: The shared directory; ``folder/hostN`` is that of a host.
    """

    def __init__(self, folder: Path, count: int, lossy: bool = False) -> None:
        self.folder = folder
        self.jobs: list[Job] = []
        self._hosts = {number: Host(number, folder / f"host{number}") for number in range(1, count + 1)}
        self._lossy = lossy
        self._switch: subprocess.Popen[str]

    def __getitem__(self, number: int) -> Host:
        return self._hosts[number]

    def up(self) -> None:
        """Start the switch and all hosts."""
        if self._lossy:
            words = ["unshare", "--net", "--", sys.executable, str(SWITCH)]
        else:
            script = "ip link set lo up && ip link add br0 type bridge && ip link set br0 up && echo ready && exec cat"
            words = ["unshare", "--net", "--", "sh", "-c", script]
        self._switch = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._switch.stdout is not None
        assert self._switch.stdout.readline() == "ready\n", "the switch did not start"
        for number in self._hosts:
            self.boot(number)

    def boot(self, number: int) -> None:
        """Start a host that is not up, with a link."""
        host = self._hosts[number]
        host.halt()
        host.boot(self.folder)
        if self._lossy:
            self.tell(f"link {number} {host.pid}")
            self.tell(f"clear {number}")
        else:
            switch = str(self._switch.pid)
            port = f"v{number}"
            # The port of a host that lost its power goes with its network, a moment later.
            gone = ["nsenter", "-t", switch, "--net", "--", "ip", "link", "del", port]
            subprocess.run(gone, stderr=subprocess.DEVNULL, check=False)
            make = ["ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(host.pid)]
            self._in_switch(*make)
            self._in_switch("ip", "link", "set", port, "master", "br0", "up")
        # A host that is replaced has the address of the old one, which the others remember.
        hardware = f"02:00:00:00:00:{number:02x}"
        for words in (f"link set eth0 address {hardware}", f"addr add {host.address}/24 dev eth0", "link set eth0 up"):
            subprocess.run(["nsenter", "-t", str(host.pid), "--net", "--", "ip", *words.split()], check=True)

    def start(self, number: int, words: Sequence[str | Path], **variables: str) -> Job:
        """Start a command on a host; its output goes to a file in the folder of the host."""
        host = self._hosts[number]
        log = host.folder / f"{len(self.jobs)}.log"
        environ = {name: value for name, value in os.environ.items() if name not in HIDDEN}
        environ |= {"OMP_NUM_THREADS": "1", "HOME": str(host.folder), "PYTHONUNBUFFERED": "1", **variables}
        job = Job(host, log, words, environ)
        self.jobs.append(job)
        return job

    def cut(self, number: int) -> None:
        """Cut the link of a host: frames to it and from it are lost, and nothing says so."""
        if self._lossy:
            self.tell(f"cut {number}")
        else:
            self._in_switch("ip", "link", "set", f"v{number}", "down")

    def heal(self, number: int) -> None:
        """Connect the link of a host again."""
        if self._lossy:
            self.tell(f"clear {number}")
        else:
            self._in_switch("ip", "link", "set", f"v{number}", "up")

    def lose_power(self, number: int) -> None:
        """Cut the link of a host, then kill all its processes."""
        self.cut(number)
        self._hosts[number].lose_power()

    def tell(self, line: str) -> None:
        """Give the lossy switch an order, such as ``delay 5`` in milliseconds or ``loss 0.02``."""
        assert self._switch.stdin is not None and self._switch.stdout is not None
        self._switch.stdin.write(f"{line}\n")
        self._switch.stdin.flush()
        answer = self._switch.stdout.readline()
        assert answer == "done\n", f"the switch did not understand {line!r}: {answer}"

    def down(self) -> None:
        """End everything."""
        for host in self._hosts.values():
            host.halt()
        for job in self.jobs:
            job.process.wait(60)
        self._switch.kill()
        self._switch.wait(30)
        for stream in (self._switch.stdin, self._switch.stdout):
            assert stream is not None
            stream.close()

    def logs(self) -> str:
        """Return the output of all commands, for messages of tests."""
        return "\n".join(f"--- {job.host.name}: {job.log.name}\n{job.output()}" for job in self.jobs)

    def _in_switch(self, *words: str) -> None:
        subprocess.run(["nsenter", "-t", str(self._switch.pid), "--net", "--", *words], check=True)


class Job:
    """A command on a host.

    Attributes:
        host: The host.
        process: ``nsenter``, which ends as the command does.
        log: The file with all output.
    """

    def __init__(self, host: Host, log: Path, words: Sequence[str | Path], environ: Mapping[str, str]) -> None:
        self.host = host
        self.log = log
        with log.open("w") as output:
            self.process = subprocess.Popen(
                host.command(words),
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def code(self) -> int | None:
        """The exit code; None while the command runs. It is -9 or 137 if the host lost its power."""
        return self.process.poll()

    def output(self) -> str:
        """Return the lines that the command printed so far."""
        return self.log.read_text(errors="replace")

    def ended(self, seconds: float) -> int:
        """Wait for the end, and return the exit code. Raises AssertionError with the output if it takes longer."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.host.name} did not end within {seconds:g} s:\n{self.output()}") from None

    def send_signal(self, number: int) -> None:
        """Send a signal to the command itself, as a batch system on its host would."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        os.kill(int(children[0]), number)

    def said(self, text: str, seconds: float = 240.0) -> None:
        """Wait until it has printed ``text``. Raises AssertionError if it does not, or ends before."""
        deadline = time.monotonic() + seconds
        while text not in self.output():
            over = self.code is not None or time.monotonic() > deadline
            assert not over or text in self.output(), f"{self.host.name} did not say {text!r}:\n{self.output()}"
            time.sleep(0.05)


@contextmanager
def hosts(folder: Path, count: int, lossy: bool = False) -> Iterator[Hosts]:
    """``count`` hosts that share ``folder``; all that runs on them ends with the block."""
    made = Hosts(folder, count, lossy)
    with ExitStack() as stack:
        stack.callback(made.down)
        made.up()
        yield made


# ---------------------------------------------------------------- process 1 of a host


def _shared_paths(shared: Path) -> list[Path]:
    """What a host shares below the directories that it has for itself: the test's folder, Python, and rlcore."""
    used = {shared, Path(sys.prefix), Path(sys.base_prefix), *map(Path, filter(None, sys.path)), SUPPORT.parents[1]}
    paths = sorted(path.resolve() for path in used if path.is_dir())
    found: list[Path] = []
    for path in paths:
        covered = any(path.is_relative_to(place) for place in COVERED)
        if covered and not any(path.is_relative_to(parent) for parent in found):
            found.append(path)
    return found


def _mount(*words: str, keep: Sequence[int] = ()) -> None:
    subprocess.run(["mount", *words], check=True, pass_fds=keep)


def init(name: str, shared: Path) -> None:
    """Prepare the host, say ``ready``, and collect processes without a parent until the input ends."""
    socket.sethostname(name)
    _mount("--make-rprivate", "/")
    # Opened before other file systems hide them.
    kept = {path: os.open(path, os.O_PATH) for path in _shared_paths(shared)}
    for place in COVERED:
        _mount("-t", "tmpfs", "-o", "size=2g", "tmpfs", place)
    _mount("-t", "proc", "proc", "/proc")
    for path, descriptor in kept.items():
        path.mkdir(parents=True, exist_ok=True)
        # Not canonicalized: by its name, `mount` would find the new and empty directory.
        _mount("--no-canonicalize", "--bind", f"/proc/self/fd/{descriptor}", str(path), keep=[descriptor])
        os.close(descriptor)
    table = Path("/tmp/hosts")
    lines = ["127.0.0.1 localhost", *(f"10.77.0.{number} host{number}" for number in range(1, 10))]
    table.write_text("\n".join(lines) + "\n")
    _mount("--bind", str(table), "/etc/hosts")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel collects them
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    init(sys.argv[1], Path(sys.argv[2]))
