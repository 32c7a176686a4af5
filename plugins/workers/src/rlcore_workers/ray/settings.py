"""The settings of the executor ``ray``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite

import attrs

from rlcore import SettingError, setting
from rlcore_workers import WorkerSettings

LOOPBACK = ("127.0.0.1", "localhost")
_HOST = re.compile(r"[A-Za-z0-9_.:%-]{1,255}")
_ADDRESS = re.compile(r"([A-Za-z0-9.-]{1,255}|\[[0-9A-Fa-f:.]{1,45}\]):([0-9]{1,5})")


def _address_problem(value: str) -> str | None:
    if value.startswith("ray://"):
        return "must not be an address of Ray Client: start the run on a node of the cluster, with HOST:PORT"
    if value == "auto":
        return None
    address = _ADDRESS.fullmatch(value)
    if address is not None and 0 < int(address[2]) < 65536:
        return None
    return "must be HOST:PORT of a cluster's head node, or auto"


def _bind_problem(value: str) -> str | None:
    return None if _HOST.fullmatch(value) else "must be an address of this machine"


def _resources_problem(value: Mapping[str, float]) -> str | None:
    sound = all(name and isfinite(amount) and amount >= 0 for name, amount in value.items())
    return None if sound else "must be names with amounts of 0 or more"


@attrs.frozen(kw_only=True)
class RaySettings(WorkerSettings):
    """Settings of the executor ``ray``, which runs each worker in a Ray actor."""

    address: str | None = setting(
        None,
        "HOST:PORT of the cluster that has the workers; auto for the cluster of this node; null starts Ray on this "
        "machine for the run.",
        check=_address_problem,
    )
    cpus: float = setting(1.0, "Logical CPUs that Ray reserves for each worker.", minimum=0)
    resources: dict[str, float] = setting(
        factory=dict,
        description="Other resources that Ray reserves for each worker, such as a kind of host.",
        check=_resources_problem,
    )
    bind: str = setting(
        "127.0.0.1",
        "Address of this machine at which a Ray that the run starts can be reached. With any other than 127.0.0.1, Ray "
        "listens on all network interfaces, and allow_public_bind must be true.",
        check=_bind_problem,
    )
    allow_public_bind: bool = setting(
        False,
        "Whether Ray may listen on network interfaces: whoever can use Ray can run any code on this machine.",
        foreign=False,
    )

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.bind in LOOPBACK:
            return
        if self.address is not None:
            raise SettingError("bind", "is for a Ray that the run starts; leave it out with address")
        if not self.allow_public_bind:
            raise SettingError(
                "bind",
                f"{self.bind!r} would let other machines reach Ray, which runs any code that it is sent; leave it out, "
                "or set allow_public_bind: true in a network that you trust",
                others=("allow_public_bind",),
            )
