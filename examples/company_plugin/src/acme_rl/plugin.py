"""The hooks of the company. rlcore imports this module at every start, so it imports neither numpy nor urllib."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acme_rl import store
from rlcore import (
    CommandSpec,
    ConfigError,
    ConfigSection,
    RewardProviderSpec,
    RunOptionSpec,
    StashKey,
    StatsWriterSpec,
    hookimpl,
)

if TYPE_CHECKING:
    from acme_rl.uploads import Uploader
    from rlcore import LessonChange, RunConfig, RunContext

REWARD = "acme-centered"
WRITER = "acme-http"
SECTION = "acme"  # of the configuration and of the training status
UPLOADER: StashKey[Uploader | None] = StashKey()


# ---------------------------------------------------------------- what the package adds


@hookimpl
def rlcore_config_sections() -> list[ConfigSection]:
    return [
        ConfigSection(
            name=SECTION,
            target="acme_rl.settings:AcmeSettings",
            summary="Rules of the company.",
            affects_learning=False,
        )
    ]


@hookimpl
def rlcore_reward_providers() -> list[RewardProviderSpec]:
    return [
        RewardProviderSpec(
            name=REWARD,
            target="acme_rl.centered:CenteredReward",
            settings="acme_rl.settings:CenteredSettings",
            summary="potential-based shaping towards observations of zero",
        )
    ]


@hookimpl
def rlcore_stats_writers() -> list[StatsWriterSpec]:
    return [
        StatsWriterSpec(
            name=WRITER,
            target="acme_rl.http_writer:HttpWriter",
            settings="acme_rl.settings:HttpSettings",
            summary="summaries as JSON to an HTTP server",
        )
    ]


@hookimpl
def rlcore_commands() -> list[CommandSpec | RunOptionSpec]:
    return [
        CommandSpec(name="acme", target="acme_rl.commands:acme", summary="List runs, upload checkpoints."),
        RunOptionSpec(name="acme-owner", sets="acme.owner", summary="Who answers for the run."),
    ]


# ---------------------------------------------------------------- before the run


@hookimpl
def rlcore_modify_config(document: dict[str, Any]) -> None:
    url = os.environ.get("ACME_STATS_URL")
    token = os.environ.get("ACME_TOKEN")
    if url:
        block_of(document, "stats").setdefault(WRITER, {"url": url})
    if token:
        block_of(document, SECTION).setdefault("token", token)
        writer = block_of(document, "stats").get(WRITER)
        if isinstance(writer, dict):
            writer.setdefault("token", token)


def block_of(document: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a block of the configuration, which is created if it is missing.

    rlcore reports a block of another type after this hook; its dict here is dropped.
    """
    if document.get(name) is None:
        document[name] = {}
    block = document[name]
    return block if isinstance(block, dict) else {}


@hookimpl
def rlcore_check_config(config: RunConfig) -> None:
    if not config.sections[SECTION].owner:
        problem = "missing; say who answers for the run, for example with --acme-owner ann@acme.example"
        raise ConfigError(problem, key=(SECTION, "owner"))
    for name, behavior in config.behaviors.items():
        rewards = behavior.reward_signals
        extrinsic = rewards.get("extrinsic")
        for reward, block in rewards.items():
            # A reward may be written with its distribution in front: acme-rl/acme-centered.
            if extrinsic is not None and reward.endswith(REWARD) and block.gamma != extrinsic.gamma:
                problem = f"must be {extrinsic.gamma:g}, as in extrinsic: the best policy stays the best then"
                raise ConfigError(problem, key=("behaviors", name, "reward_signals", reward, "gamma"))


# ---------------------------------------------------------------- store and load the status


@hookimpl
def rlcore_write_status(status: Mapping[str, Any], directory: Path) -> bool:
    store.write(directory, status)
    return True  # it is stored: rlcore writes no file


@hookimpl
def rlcore_read_status(directory: Path) -> Mapping[str, Any] | None:
    return store.read(directory)  # None: rlcore reads its own file, which older runs have


# ---------------------------------------------------------------- add a section to the status


@hookimpl
def rlcore_report_status(run: RunContext) -> Mapping[str, Mapping[str, Any]]:
    owner = run.config.sections[SECTION].owner
    starts = store.starts(logs(run))
    return {SECTION: {"owner": owner, "starts": starts}}


@hookimpl
def rlcore_restore_status(run: RunContext, sections: Mapping[str, Any]) -> None:
    if run.inference:  # such a run must not write
        return
    from rlcore import saved_mapping  # needs numpy

    step = sum(run.resumed_steps.values())
    section = saved_mapping(sections, SECTION) if SECTION in sections else {}  # a run may begin without the plugin
    store.resume(logs(run), step, section.get("starts", []))


# ---------------------------------------------------------------- during the run


@hookimpl
def rlcore_run_started(run: RunContext) -> None:
    if run.inference:
        return
    run.own_files(f"run_logs/{store.FILE_NAME}*")  # otherwise --force keeps it like a user's file
    store.add_start(logs(run), user_name(), sum(run.resumed_steps.values()))
    settings = run.config.sections[SECTION]
    if settings.upload_to:
        from acme_rl.uploads import Uploader, destination

        copies = destination(run.working_directory, settings.upload_to, run.run_id, settings.token)
        run.stash[UPLOADER] = Uploader(copies, run.logger("acme"))


@hookimpl
def rlcore_lesson_changed(run: RunContext, step: int, change: LessonChange) -> None:
    store.add_lesson(logs(run), step, change)


@hookimpl
def rlcore_checkpoint_saved(run: RunContext, step: int, path: Path) -> None:
    uploader = run.stash.get(UPLOADER, None)
    if uploader is not None:
        uploader.add(run.hold_checkpoint(step), path)


@hookimpl
def rlcore_run_finished(run: RunContext) -> None:
    uploader = run.stash.get(UPLOADER, None)
    if uploader is not None:
        uploader.close(run.config.sections[SECTION].upload_seconds)


def logs(run: RunContext) -> Path:
    """Return the directory that rlcore passes to the hooks that write and read the status."""
    return run.directory / "run_logs"


def user_name() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # some containers have no user name
        return "unknown"
