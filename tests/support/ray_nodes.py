"""``python ray_nodes.py COUNT``: nodes of Ray on this machine, as a cluster that tests use.

Prints the address. The cluster ends with the input. A program of its own, because Ray reads variables when it is
imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLES = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token"}
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}


@contextmanager
def nodes(count: int) -> Iterator[str]:
    """The address of a cluster of ``count`` nodes of one CPU each on this machine."""
    program = subprocess.Popen(
        [sys.executable, __file__, str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert program.stdout is not None
        yield program.stdout.readline().strip()
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
        for _ in range(int(sys.argv[1]) - 1):
            cluster.add_node(**NODE)
        print(cluster.address, flush=True)
        sys.stdin.read()
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
