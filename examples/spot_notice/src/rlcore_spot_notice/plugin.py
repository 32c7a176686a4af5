"""The hooks and settings of rlcore-spot-notice. rlcore imports this module at every start, so it imports no urllib."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from rlcore import ConfigSection, StashKey, hookimpl, setting

if TYPE_CHECKING:
    from rlcore import RunContext
    from rlcore_spot_notice.watch import Watch

SECTION = "spot_notice"  # of the configuration
WATCH: StashKey[Watch] = StashKey()


@attrs.frozen(kw_only=True)
class SpotNotice:
    """The block ``spot_notice``: which address announces that the machine is taken away."""

    url: str | None = setting(None, "Address to ask; none is asked without it.")
    seconds: float = setting(5.0, "Seconds between two questions.", minimum=0.1)
    notice: str = setting("", "Text in the answer that announces the end; empty: any answer with code 200 does.")
    headers: dict[str, str] = setting(factory=dict, description="Headers of each question.")
    token_url: str | None = setting(None, "Address that gives a token for the questions, as on AWS (IMDSv2).")
    exit_code: int = setting(
        143, "Exit code of the run, by which a batch system starts it again.", minimum=0, maximum=255
    )


@hookimpl
def rlcore_config_sections() -> list[ConfigSection]:
    return [
        ConfigSection(
            name=SECTION,
            target="rlcore_spot_notice.plugin:SpotNotice",
            summary="Ends a run before its machine is taken away.",
            affects_learning=False,
        )
    ]


@hookimpl
def rlcore_run_started(run: RunContext) -> None:
    """Called in rank 0 alone; all ranks end when one is to end."""
    settings: SpotNotice = run.config.sections[SECTION]
    if settings.url is not None and not run.inference:
        from rlcore_spot_notice.watch import Watch

        run.stash[WATCH] = Watch(settings, run)


@hookimpl
def rlcore_run_finished(run: RunContext) -> None:
    watch = run.stash.get(WATCH)
    if watch is not None:
        watch.close()
