"""A switch of Ethernet frames in a process: links with delay, loss and cuts, for kernels without ``netem``.

``python lossy_switch.py`` reads orders from its input, one in a line, and answers each with ``done``:

- ``link NUMBER PID``: give the network of the process PID an interface eth0, and connect it as the link NUMBER.
- ``delay MILLISECONDS``: delay every frame by this time.
- ``loss FRACTION``: lose this fraction of all frames.
- ``cut NUMBER``: lose all frames to and from a link.
- ``mute NUMBER``: lose all frames from a link.
- ``deaf NUMBER``: lose all frames to a link.
- ``clear NUMBER``: undo these three.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TAP = 0x0002
IFF_NO_PI = 0x1000
CLONE_NEWNET = 0x40000000
FRAMES = 64  # of one link, before the others have their turn
LOOK_SECONDS = 0.1


class Switch:
    """The links, and the frames on their way."""

    def __init__(self) -> None:
        self.links: dict[int, int] = {}  # file descriptors by number
        self.delay = 0.0  # seconds
        self.loss = 0.0
        self.cut: set[int] = set()
        self.mute: set[int] = set()
        self.deaf: set[int] = set()
        self._numbers: dict[int, int] = {}  # of links, by file descriptor
        self._places: dict[bytes, int] = {}  # file descriptors by the address of an interface
        self._queue: list[tuple[float, int, int, bytes]] = []
        self._count = 0
        self._here = os.open("/proc/self/ns/net", os.O_RDONLY)
        self._libc = ctypes.CDLL(None, use_errno=True)

    def obey(self, line: str) -> None:
        """Do what a line says."""
        order, *values = line.split()
        if order == "link":
            self.link(int(values[0]), int(values[1]))
        elif order == "delay":
            self.delay = float(values[0]) / 1000
        elif order == "loss":
            self.loss = float(values[0])
        elif order == "cut":
            self.cut.add(int(values[0]))
        elif order == "mute":
            self.mute.add(int(values[0]))
        elif order == "deaf":
            self.deaf.add(int(values[0]))
        elif order == "clear":
            for lost in (self.cut, self.mute, self.deaf):
                lost.discard(int(values[0]))
        else:
            raise ValueError(line)

    def link(self, number: int, process: int) -> None:
        """Give the network of ``process`` an interface whose frames come here."""
        old = self.links.pop(number, None)
        if old is not None:
            del self._numbers[old]
            self._places = {address: place for address, place in self._places.items() if place != old}
            os.close(old)
        network = os.open(f"/proc/{process}/ns/net", os.O_RDONLY)
        self._enter(network)
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", b"eth0", IFF_TAP | IFF_NO_PI))
        self._enter(self._here)
        os.close(network)
        self.links[number] = device
        self._numbers[device] = number

    def _enter(self, network: int) -> None:
        if self._libc.setns(network, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")

    def receive(self, device: int) -> None:
        """Take the frames of a link, and put those that are not lost on their way."""
        number = self._numbers[device]
        for _ in range(FRAMES):
            try:
                frame = os.read(device, 65536)
            except OSError:  # no more, or the host is gone
                return
            to = frame[:6]
            sender = frame[6:12]
            self._places[sender] = device
            if number in self.cut or number in self.mute or random.random() < self.loss:
                continue
            is_for_one = not frame[0] & 1 and to in self._places
            others = [other for other in self._numbers if other != device]
            for out in [self._places[to]] if is_for_one else others:
                if self._numbers[out] not in self.cut | self.deaf:
                    self._count += 1
                    heapq.heappush(self._queue, (time.monotonic() + self.delay, self._count, out, frame))

    def deliver(self) -> float:
        """Deliver the frames whose time has come. Return the seconds until the next one, at most ``LOOK_SECONDS``."""
        while self._queue:
            left = self._queue[0][0] - time.monotonic()
            if left > 0:
                return min(left, LOOK_SECONDS)
            _, _, out, frame = heapq.heappop(self._queue)
            if out in self._numbers:
                try:
                    os.write(out, frame)
                except OSError:  # the interface is down, or its queue is full
                    continue
        return LOOK_SECONDS


def main() -> None:
    switch = Switch()
    orders = sys.stdin.fileno()
    print("ready", flush=True)
    rest = b""
    while True:
        seconds = switch.deliver()
        ready, _, _ = select.select([orders, *switch.links.values()], (), (), seconds)
        for each in ready:
            if each != orders:
                switch.receive(each)
                continue
            news = os.read(orders, 4096)
            if not news:
                return
            *lines, rest = (rest + news).split(b"\n")
            for line in lines:
                switch.obey(line.decode())
                print("done", flush=True)


if __name__ == "__main__":
    main()
