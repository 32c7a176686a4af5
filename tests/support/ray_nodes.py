"""``python ray_nodes.py COUNT``: nodes of Ray on this machine, as a cluster that tests use.

Prints the address. Each line of the input is a command: ``kill`` ends the raylet of a node, ``add`` adds a node. The
cluster ends with the input. A program of its own, because Ray reads variables when it is imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLES = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token"}
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}


class Nodes:
    """A cluster in another process.

    Attributes:
        address: HOST:PORT of the cluster.
    """

    def __init__(self, program: subprocess.Popen[str]) -> None:
        self._program = program
        self.address = self._answer()

    def tell(self, command: str) -> None:
        """Run a command, and wait until it is done."""
        assert self._program.stdin is not None
        self._program.stdin.write(f"{command}\n")
        self._program.stdin.flush()
        assert self._answer() == command

    def _answer(self) -> str:
        assert self._program.stdout is not None
        return self._program.stdout.readline().strip()


@contextmanager
def nodes(count: int) -> Iterator[Nodes]:
    """A cluster of ``count`` nodes of one CPU each on this machine."""
    program = subprocess.Popen(
        [sys.executable, __file__, str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Nodes(program)
    finally:
        assert program.stdin is not None
        program.stdin.close()
        program.wait(timeout=120)


def main() -> None:
    os.environ |= VARIABLES
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        cluster.add_node(include_dashboard=False, **NODE)
        others = [cluster.add_node(**NODE) for _ in range(int(sys.argv[1]) - 1)]
        print(cluster.address, flush=True)
        for line in sys.stdin:
            if line.strip() == "kill":
                others.pop(0).kill_raylet()
            else:
                others.append(cluster.add_node(**NODE))
            print(line.strip(), flush=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
