"""A part of a boundary, as a local plugin file: it draws a number at every 35 steps, and notes what it is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlcore import BoundaryPart, BoundaryPartSpec, RunContext, hookimpl
from rlcore.contracts.seeding import derive_generator, generator_state, restore_generator

PLACE = {"before": "checkpoint", "fails": ""}  # for tests


@hookimpl
def rlcore_boundary_parts() -> list[BoundaryPartSpec]:
    return [BoundaryPartSpec(name="ticks", target="stub_part:Ticks", before=PLACE["before"])]


class Ticks(BoundaryPart):
    next_step = 35

    def __init__(self, run: RunContext) -> None:
        self.generator = derive_generator(run.seed, "ticks")
        self.drawn: list[float] = []
        self.told: list[str] = []  # for tests; no state

    def do(self, step: int) -> None:
        if PLACE["fails"]:
            raise ZeroDivisionError("no tick")
        self.drawn.append(float(self.generator.random()))
        self.next_step = (step // 35 + 1) * 35
        self.told.append(f"do {step}")

    def before_reset(self, episodes: Any) -> None:
        self.told.append("before a reset")

    def after_reset(self, episodes: Any) -> None:
        self.told.append("after a reset")

    def stats(self) -> Mapping[str, float]:
        return {"Ticks/Drawn": len(self.drawn)}

    def summarised(self, behavior: str, stats: Mapping[str, Any]) -> None:
        self.told.append(f"{behavior} {stats['Ticks/Drawn'].mean:g}")

    def status(self) -> Mapping[str, Mapping[str, Any]]:
        return {"ticks": {"drawn": len(self.drawn)}}

    def checkpoint_saved(self, step: int) -> None:
        self.told.append(f"saved {step}")

    def finish(self, step: int) -> None:
        self.told.append(f"finish {step}")

    def state_dict(self) -> Mapping[str, Any]:
        return {"drawn": list(self.drawn), "generator": generator_state(self.generator), "next_step": self.next_step}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.drawn = list(state["drawn"])
        self.next_step = state["next_step"]
        restore_generator(self.generator, state["generator"])
