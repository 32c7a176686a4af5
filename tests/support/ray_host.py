"""``python ray_host.py --head ...``: ``ray start`` for a machine on which more runs than it has cores for.

Ray gives its processes on a host 30 seconds to start, and its agents 15 seconds to write the ports at which they
listen, whatever its settings. The agents import for longer than that if other programs need the processor, and Ray's
process on the host ends. This program waits longer, chooses and writes the ports, and leaves out what tests do not use:
the dashboard, the server of Ray Client, the autoscaler, and the monitor of logs.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

WAIT_SECONDS = 400.0
PORTS = {  # of a host that has a network of its own
    "metrics_agent": ("--dashboard-agent-grpc-port", 6401),
    "dashboard_agent_listen": ("--dashboard-agent-listen-port", 6402),
    "metrics_export": ("--metrics-export-port", 6403),
    "runtime_env_agent": ("--runtime-env-agent-port", 6404),
}
VARIABLES = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is sent to others
    "RAY_agent_register_timeout_ms": str(int(1000 * WAIT_SECONDS)),
    "RAY_gcs_server_port_wait_time_s": str(int(WAIT_SECONDS)),
    "RAY_gcs_server_request_timeout_seconds": str(int(WAIT_SECONDS)),
    "RAY_worker_register_timeout_seconds": str(int(WAIT_SECONDS)),
    "RAY_worker_niceness": "0",  # Ray would give all others the processor first
}


def main() -> None:
    """Run ``ray start`` with the arguments of this program."""
    os.environ |= VARIABLES
    from ray._private import services, utils
    from ray._private.node import Node
    from ray._raylet import persist_port
    from ray.scripts import scripts

    wait_for_node = services.get_node
    start_raylet = Node.start_raylet

    def get_node(*arguments: Any, **options: Any) -> Any:
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                return wait_for_node(*arguments, **options)
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def start_with_ports(node: Any, *arguments: Any, **options: Any) -> Any:
        for name, (_, port) in PORTS.items():
            persist_port(node._session_dir, node._node_id, f"{name}_port", port)
        return start_raylet(node, *arguments, **options)

    services.get_node = get_node
    Node.start_raylet = start_with_ports
    Node.start_api_server = lambda *arguments, **options: None
    scripts.get_ray_client_dependency_error = lambda: "it is not needed"
    utils.get_dashboard_dependency_error = lambda: "it is not needed"
    ports = [f"{option}={port}" for option, port in PORTS.values()]
    scripts.cli(
        ["start", "--no-monitor", "--include-log-monitor=false", "--disable-usage-stats", *ports, *sys.argv[1:]]
    )


if __name__ == "__main__":
    main()
