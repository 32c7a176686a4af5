"""One line, once in a process that trains: what the measured times say about ranks and workers.

Nothing else depends on these times: they differ from run to run.
"""

from __future__ import annotations

import logging
import os

import attrs

from rlcore.run.timers import PhaseTimes

log = logging.getLogger(__name__)

# Seconds to measure after the first update, which also waits for what PyTorch prepares only once.
MEASURED_SECONDS = 1.0
# A step of the environments of one worker that takes less is mostly the exchange with it.
LEAST_STEP = 0.5e-3
# Share of the time in steps of the environments from which workers are advised.
MOSTLY = 0.6


@attrs.frozen
class Setting:
    """The K ``ranks`` of a run, the ``workers`` and the ``envs`` of each rank, and the ``cores`` of the machine.

    ``workers`` is 0 in one process, and None if nothing is stepped.
    """

    ranks: int
    workers: int | None
    envs: int
    cores: int = attrs.field(factory=lambda: os.cpu_count() or 1)


class SpeedAdvice:
    """Measures from the first update on, and logs the line of :func:`speed_advice` when that was long enough."""

    def __init__(self, setting: Setting, leads: bool) -> None:
        """``leads``: this is rank 0, which logs."""
        self.done = not leads
        self._setting = setting
        self._earlier = PhaseTimes()  # of earlier epochs
        self._first: tuple[PhaseTimes, float] | None = None  # after the first update

    def updated(self, times: PhaseTimes, elsewhere: float) -> bool:
        """An update ended; ``times`` are of this epoch. Returns whether that is all.

        ``elsewhere`` are seconds of this process: of exchanges with other ranks; in one, of steps within workers.
        """
        total = times.plus(self._earlier)
        if self._first is None:
            self._first = total, elsewhere
        elif not self.done:
            spent = total.plus(self._first[0], -1)
            if spent.collecting + spent.updating >= MEASURED_SECONDS:
                self.done = True
                line = speed_advice(spent, elsewhere - self._first[1], self._setting)
                if line is not None:
                    log.info("%s", line)
        return self.done

    def epoch_over(self, times: PhaseTimes) -> None:
        """An epoch with these ``times`` is over."""
        self._earlier = times.plus(self._earlier)


def speed_advice(times: PhaseTimes, elsewhere: float, setting: Setting) -> str | None:
    """Return what ``times``, and seconds ``elsewhere``, say about ranks and workers; None if nothing.

    K ranks do the work of one process, and exchange: one process needs at most K times their time without exchanges.
    One process needs at most the seconds that workers spend in steps of their environments.
    """
    total = times.collecting + times.updating
    step = times.stepping / max(times.environment_steps, 1)
    share = f"{100 * times.stepping / total:.0f}% of the time goes into steps of the environments"
    if setting.ranks > 1:
        exchanging = min(elsewhere, total)
        most = setting.ranks * (1 - exchanging / total)
        verdict = "one process is faster: leave torchrun out" if most < 1 else "ranks may pay"
        return (
            f"speed: {share} and {100 * times.updating / total:.0f}% into updates; {100 * exchanging / total:.0f}% is "
            f"exchange with other ranks and waiting for them: {setting.ranks} ranks are at most {most:.2g} times as "
            f"fast as one process; {verdict}"
        )
    if setting.workers:
        if not elsewhere:  # unknown: no shared memory, or steps that overlap with updates
            return None
        most = elsewhere / times.stepping
        verdict = "one process is faster: leave workers out" if most < 1 else "workers may pay"
        return (
            f"speed: {share}, {1000 * step:.2g} ms for a step of all: {setting.workers} workers make it at most "
            f"{most:.2g} times as fast as one process; {verdict}"
        )
    workers = min(setting.cores, setting.envs)
    part = times.stepping / total
    if setting.workers is None or workers < 2 or part < MOSTLY or step / workers < LEAST_STEP:
        return None
    most = 1 / (1 - part + part / workers)
    return (
        f"speed: {share}, {1000 * step:.2g} ms for a step of all; environment.workers: {workers} may make the run up "
        f"to {most:.2g} times as fast"
    )
