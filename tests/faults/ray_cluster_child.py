"""``python ray_cluster_child.py DIRECTORY KILLS``: three nodes of Ray on this machine, of which raylets are killed.

A program of its own, because Ray reads variables when it is imported, and its nodes must end with it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
os.environ |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token"}

NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
STEPS_BETWEEN = 9


def main() -> None:
    """Write the environments of each abort, and the counts of the run, to ``found.json``: Ray prints, too."""
    from checked_workers import Checked, make
    from ray.cluster_utils import Cluster

    directory, kills = Path(sys.argv[1]), int(sys.argv[2])
    cluster = Cluster()
    try:
        cluster.add_node(include_dashboard=False, **NODE)
        nodes = [cluster.add_node(**NODE) for _ in range(2)]
        workers = {"executor": "ray", "count": 3, "address": cluster.address, "step_timeout": 60.0}
        environment = make(directory, workers, 6, limits={"restarts_rate_limit_n": -1, "max_lifetime_restarts": -1})
        checked = Checked(environment)
        checked.play(STEPS_BETWEEN)
        for _ in range(kills):
            nodes.pop(0).kill_raylet()
            nodes.append(cluster.add_node(**NODE))
            checked.play(STEPS_BETWEEN)
        found = {"aborts": checked.aborts, "stats": environment.stats()}
        (directory / "found.json").write_text(json.dumps(found), encoding="utf-8")
        environment.close()
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
