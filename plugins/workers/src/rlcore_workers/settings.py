"""The settings of workers that a run supervises: failures, deadlines, and what overlaps."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from rlcore import ExecutorSettings, KeyPath, Plugins, RunConfig, SettingError, TrainerSpec, setting


@attrs.frozen(kw_only=True)
class WorkerSettings(ExecutorSettings):
    """Settings of supervised workers; the settings class of another executor of such workers derives from this class.

    A file may have the number of workers instead. Limits of restarts are in ``env_settings``, under ML-Agents' names.
    """

    on_failure: str = setting(
        "restart",
        "What follows when a worker raises, dies or hangs: restart starts it again, within the limits of env_settings; "
        "drop does so too, and continues without it after that; fail ends the run.",
        choices=("restart", "drop", "fail"),
    )
    min_workers: int = setting(1, "With drop: the number of workers that the run needs to continue.", minimum=1)
    overlap: str = setting(
        "none",
        "What the run does while workers step: none waits for all; half computes actions and updates for one half of "
        "the workers while the other half steps; updates has off-policy trainers update while all step. Results "
        "differ from none, and are exact on resume.",
        choices=("none", "half", "updates"),
    )
    wait_for: int | None = setting(
        None,
        "Number of workers that a step waits for, the first ones that answer; the others are asked again in later "
        "steps. Resuming is statistical. null: all.",
        minimum=1,
    )
    step_timeout: float | None = setting(
        10.0, "Seconds that a step of a worker may take; null for no limit, to debug.", exclusive_minimum=0
    )
    reset_timeout: float | None = setting(
        30.0, "Seconds that a reset of a worker may take; null for no limit, to debug.", exclusive_minimum=0
    )

    def __attrs_post_init__(self) -> None:
        if self.min_workers > self.count:
            raise SettingError("min_workers", f"is {self.min_workers}, and count {self.count}", others=("count",))
        if self.overlap == "half" and self.count < 2:
            raise SettingError("overlap", "half needs at least 2 workers, which take turns", others=("count",))
        if self.wait_for is None:
            return
        if self.wait_for > self.count:
            raise SettingError("wait_for", f"there are {self.count} workers (count)", others=("count",))
        if self.overlap != "none":
            problem = f"with overlap: {self.overlap}, a step waits for workers in a fixed order; leave one of them out"
            raise SettingError("wait_for", problem, others=("overlap",))

    def problems(self, config: RunConfig, plugins: Plugins) -> Iterator[tuple[KeyPath, str]]:
        """Yield a problem for each trainer that needs all agents to act, if agents wait for others."""
        if self.overlap != "half" and not self.wait_for:
            return
        for name, behavior in config.behaviors.items():
            record = plugins.record(TrainerSpec, behavior.trainer_type)
            if not record.turns:
                yield (
                    ("wait_for" if self.wait_for else "overlap",),
                    f"agents wait for others then, and {record.described} of behavior {name!r} needs all to act; leave "
                    "it out, or choose another trainer_type",
                )
