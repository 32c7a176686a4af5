"""The keys that all trackers have in their blocks under ``stats``."""

from __future__ import annotations

from typing import Literal

import attrs

from rlcore import setting


@attrs.frozen(kw_only=True)
class TrackerSettings:
    """Settings of every tracker."""

    project: str = setting("rlcore", "Name of the project, or experiment, that the run belongs to.", foreign=True)
    group: str | None = setting(
        None, "Group of runs; by default the name of the study or of the sweep that the run belongs to.", foreign=True
    )
    system_info: bool = setting(
        True,
        "Also send system metrics, where the tracker has them, and the git commit of the working directory with "
        "whether tracked files differ from it. Neither remotes nor patches are sent.",
    )
    checkpoints: Literal["none", "last", "all"] = setting(
        "last", "Checkpoints to keep as artifacts: the last one when the run ends, all, or none."
    )
    replay: bool = setting(
        False, "Also keep the replay buffers of checkpoints, which are large; without them a resume is statistical."
    )
    report: bool = setting(
        False, "Also keep the page of 'rlcore report' when the run ends; needs rlcore-study[report]."
    )
    finish_timeout: float = setting(
        20.0, "Seconds that the end of a run may wait for what is still to be sent.", minimum=0, maximum=25
    )
