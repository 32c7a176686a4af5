"""Says in words which resources of a Ray cluster are free."""

from __future__ import annotations

from collections.abc import Iterable


def free_room(names: Iterable[str]) -> str:
    """``1 of 4 CPU, 0 of 0 GPU`` is free: of the resources with these names, by Ray's names.

    Ray's own dictionary also has names of nodes, and those of the bundles of placement groups, which are its own.
    """
    import ray

    free = ray.available_resources()
    there = ray.cluster_resources()
    parts = [f"{free.get(name, 0.0):g} of {there.get(name, 0.0):g} {name}" for name in names]
    return ", ".join(parts) or "nothing"
