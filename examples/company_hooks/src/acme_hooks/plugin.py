"""A company's rules for every run: defaults and checks, a budget, a bill, and a copy of each checkpoint."""

import logging
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import attrs

from rlcore import ConfigSection, RunOptionSpec, StashKey, StatsWriterSpec, hookimpl
from rlcore.errors import ConfigError
from rlcore.settings import setting

UPLOADS = StashKey[ThreadPoolExecutor]()


# ---------------------------------------------------------------- what the package adds


@attrs.frozen(kw_only=True)
class AcmeSettings:
    """Rules of the company for one run."""

    team: str = setting("", "Team that pays for the run.")
    steps: int = setting(1_000_000, "Budget of a behavior, in agent steps.", minimum=1)
    step_cost: float = setting(0.0, "Taken from the reward of each step, in training only.", minimum=0)
    mirror: str = setting(description="Address of the copies of checkpoints, with its password.", secret=True)


@hookimpl
def rlcore_config_sections():
    return [ConfigSection(name="acme", target="acme_hooks.plugin:AcmeSettings", summary="Rules of the company.")]


@hookimpl
def rlcore_run_options():
    return [RunOptionSpec(name="acme-team", sets="acme.team", summary="Team that pays for the run.")]


@hookimpl
def rlcore_stats_writers():
    return [StatsWriterSpec(name="bill", target="acme_hooks.plugin:Bill", default_on=True, summary="bill.txt")]


class Bill:
    """Writes what the run has cost so far."""

    def __init__(self, settings, run):
        run.own_files("bill.txt")
        self.path = run.directory / "bill.txt"

    def write(self, behavior, step, stats):
        self.path.write_text(f"{stats['Acme/Dollars'].mean:.2f}\n")

    def close(self):
        """Do nothing: no file is open."""


# ---------------------------------------------------------------- before the run


@hookimpl
def rlcore_modify_config(document):
    document.setdefault("acme", {}).setdefault("mirror", os.environ.get("ACME_MIRROR", "mirror"))


@hookimpl
def rlcore_check_config(config):
    if not config.sections["acme"].team:
        raise ConfigError("acme.team: missing; name the team that pays, for example with --acme-team vision")


@hookimpl(wrapper=True)
def rlcore_create_environment(run):
    environment = yield

    def charged(actions, step=environment.step):
        cost = run.config.sections["acme"].step_cost
        return {name: attrs.evolve(batch, reward=batch.reward - cost) for name, batch in step(actions).items()}

    if run.purpose == "train":  # the scores of evaluations stay what they are
        environment.step = charged
    return environment


@hookimpl(wrapper=True)
def rlcore_create_curriculum(spec, run):
    run.logger("acme-hooks").debug("%s uses %s %s", run.run_id, spec.kind, spec.name)
    return (yield)


rlcore_create_exporter = rlcore_create_curriculum


@hookimpl
def rlcore_run_failed_to_start(directory, error):
    logging.getLogger("rlcore.plugin.acme-hooks").error("%s was not started: %s", directory.name, error)


# ---------------------------------------------------------------- during the run


@hookimpl
def rlcore_run_started(run):
    run.stash[UPLOADS] = ThreadPoolExecutor(1)


@hookimpl
def rlcore_process_summary(run, step):
    if step >= run.config.sections["acme"].steps:
        run.request_stop("the budget of the team is spent", exit_code=75)
    return {"Acme/Dollars": step * 1e-5}


@hookimpl
def rlcore_checkpoint_saved(run, step, path):
    run.stash[UPLOADS].submit(upload, run, run.hold_checkpoint(step), path)


@hookimpl
def rlcore_checkpoint_removed(run, path):
    run.stash[UPLOADS].submit(shutil.rmtree, copy_of(run, path))


@hookimpl
def rlcore_run_finished(run, outcome, results):
    run.stash[UPLOADS].shutdown()  # waits for the last upload
    run.logger("acme-hooks").info("%s: %s", outcome, {name: result.mean_reward for name, result in results.items()})


def upload(run, hold, path):
    with hold:
        shutil.copytree(path, copy_of(run, path), dirs_exist_ok=True)


def copy_of(run, path):
    return run.absolute(run.config.sections["acme"].mirror) / run.run_id / path.name
