"""One implementation of every hook for the reference. Together they form a plugin, which a test registers."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

from rlcore import (
    BehaviorSection,
    BoundaryPartSpec,
    CommandSpec,
    ConfigSection,
    CurriculumSpec,
    EnvironmentSpec,
    EvaluationSection,
    ExecutorSpec,
    ExporterSpec,
    Preset,
    RewardProviderSpec,
    RunOptionSpec,
    StatsWriterSpec,
    TrainerSpec,
    echo,
    hookimpl,
)
from rlcore_ghost import OpponentSpec
from rlcore_offline import RecordingFormatSpec
from rlcore_torch import (
    AccelerationSpec,
    ActionDistributionSpec,
    EncoderSpec,
    OptimizerSpec,
    ReplaySamplerSpec,
    ScheduleSpec,
)


@hookimpl
def rlcore_trainers():
    return [
        TrainerSpec(
            name="acme-dqn",
            target="acme_rl.dqn:DQNTrainer",
            settings="acme_rl.settings:DQNSettings",
            spaces={"discrete"},
            summary="Q-learning with a target network",
        )
    ]


@hookimpl
def rlcore_reward_providers():
    return [
        RewardProviderSpec(
            name="haste",
            target="acme_rl.haste:HasteReward.create",
            settings="acme_rl.settings:HasteSettings",
            summary="a small penalty for every step",
        )
    ]


@hookimpl
def rlcore_stats_writers():
    return [StatsWriterSpec(name="csv", target="acme_rl.csv_writer:CsvWriter.create", summary="stats.csv")]


@hookimpl
def rlcore_environments():
    return [
        EnvironmentSpec(
            name="warehouse",
            target="acme_rl.warehouse:make_environment",
            settings="acme_rl.settings:WarehouseSettings",
            summary="robots that fetch boxes",
        )
    ]


@hookimpl
def rlcore_executors():
    return [
        ExecutorSpec(
            name="cluster",
            target="acme_rl.cluster:create_environment",
            settings="acme_rl.settings:ClusterSettings",
            summary="workers on the machines of the cluster",
        )
    ]


@hookimpl
def rlcore_curricula():
    return [
        CurriculumSpec(
            name="ladder",
            target="acme_rl.ladder:Ladder",
            settings="acme_rl.settings:LadderSettings",
            summary="one rung up after a success, one down after a failure",
        )
    ]


@hookimpl
def rlcore_boundary_parts():
    return [
        BoundaryPartSpec(
            name="milestones",
            target="acme_rl.milestones:Milestones",
            before="checkpoint",
            summary="a line in milestones.txt at every thousand steps",
        )
    ]


@hookimpl
def rlcore_encoders():
    return [
        EncoderSpec(
            name="shelf-cnn",
            target="acme_rl.shelf_cnn:ShelfCNN",
            settings="acme_rl.settings:ShelfCNNSettings",
            kinds={"image"},
            summary="convolutions for the cameras of our shelves",
        )
    ]


@hookimpl
def rlcore_action_distributions():
    return [
        ActionDistributionSpec(
            name="beta",
            target="acme_rl.beta:Beta",
            settings="acme_rl.settings:BetaSettings",
            summary="a Beta distribution for actions within bounds",
        )
    ]


@hookimpl
def rlcore_replay_buffer_samplers():
    return [
        ReplaySamplerSpec(
            name="recency",
            target="acme_rl.recency:RecencySampler",
            settings="acme_rl.settings:RecencySettings",
            summary="newer transitions more often than older ones",
        )
    ]


@hookimpl
def rlcore_exporters():
    return [
        ExporterSpec(
            name="firmware",
            target="acme_rl.firmware:FirmwareExporter",
            settings="acme_rl.settings:FirmwareSettings",
            suffix=".bin",
            summary="policies for the controllers of our robots",
        )
    ]


@hookimpl
def rlcore_opponents():
    return [
        OpponentSpec(
            name="minimax",
            target="acme_rl.minimax:Minimax",
            settings="acme_rl.settings:MinimaxSettings",
            summary="searches the game to a depth",
        )
    ]


@hookimpl
def rlcore_optimizers():
    return [
        OptimizerSpec(
            name="adamw",
            target="acme_rl.adamw:adamw",
            settings="acme_rl.settings:AdamWSettings",
            summary="Adam with decoupled weight decay",
        )
    ]


@hookimpl
def rlcore_accelerations():
    return [
        AccelerationSpec(
            name="acme-dqn",
            trainer="acme_rl.dqn:DQNTrainer",
            target="acme_rl.dqn_by_hand:GRADIENTS",
            summary="the gradient of the loss without autograd",
        )
    ]


@hookimpl
def rlcore_schedules():
    return [
        ScheduleSpec(
            name="halves",
            target="acme_rl.halves:halves",
            summary="half the value after a quarter of the run, a quarter after a half, and so on",
        )
    ]


@hookimpl
def rlcore_recording_formats():
    return [
        RecordingFormatSpec(
            name="robot-log",
            target="acme_rl.robot_log:RobotLogFormat",
            summary="episodes from the log of our robots",
        )
    ]


@hookimpl
def rlcore_commands():
    return [
        CommandSpec(name="sweep", target="acme_rl.sweep:sweep_command", summary="Try many seeds."),
        RunOptionSpec(name="acme-team", sets="acme.team", summary="The team that pays for the run."),
    ]


@hookimpl
def rlcore_config_sections():
    return [
        ConfigSection(name="acme", target="acme_rl.settings:AcmeSettings", summary="Where results are sent."),
        BehaviorSection(name="acme_league", target="acme_rl.settings:LeagueSettings", summary="Our league."),
        EvaluationSection(
            name="partners",
            target="acme_rl.partners:WithPartners",
            settings="acme_rl.settings:PartnersSettings",
            summary="evaluations with partners that people have recorded",
        ),
        Preset(
            name="acme-arm",
            target="acme_rl.presets:ARM",
            summary="PPO for our robot arms",
            source="measured on arms 1 to 12, 5 seeds each",
        ),
    ]


@hookimpl(wrapper=True)
def rlcore_create_trainer(spec, settings):
    trainer = yield  # the trainer of the next plugin, or of rlcore
    print(f"{spec.name} runs for {settings.max_steps} steps")
    return trainer


@hookimpl(wrapper=True)
def rlcore_create_reward_provider(spec):
    provider = yield
    if spec.name == "extrinsic":
        provider.strength *= 0.1
    return provider


@hookimpl
def rlcore_create_stats_writer(spec, run):
    if spec.name != "csv":
        return None  # not our writer: rlcore calls the next plugin
    from acme_rl.csv_writer import CsvWriter

    run.own_files("acme.csv")
    return CsvWriter(run.directory / "acme.csv")


@hookimpl(wrapper=True)
def rlcore_create_environment(run):
    environment = yield
    print(f"{run.num_envs} environments with {', '.join(environment.behaviors)}")
    return environment


@hookimpl
def rlcore_create_ranks(launch, config, stops):
    from acme_rl.mpi import MpiRanks  # a subclass of rlcore.Ranks

    return MpiRanks(launch.rank, launch.size, 60.0, stops)


@hookimpl
def rlcore_create_parameter_source(plugins):
    from acme_rl.tasks import Tasks  # the company's own way from episode to episode, with the curricula of all plugins

    return Tasks(plugins)


@hookimpl
def rlcore_create_recordings(plugins):
    from acme_rl.archive import Archive  # the company's own store of episodes, beside the files of every format

    return Archive(plugins)


@hookimpl
def rlcore_report_status(run):
    return {"acme": {"machine": "forge-7", "run": run.run_id}}


@hookimpl
def rlcore_restore_status(sections):
    machine = sections.get("acme", {}).get("machine")
    if machine:
        print(f"this run was started on {machine}")


@hookimpl
def rlcore_write_status(status, directory):
    with closing(sqlite3.connect(directory / "status.db")) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS status (document TEXT)")
        database.execute("INSERT INTO status VALUES (?)", (json.dumps(status),))
    return True  # it is stored: rlcore writes no file


@hookimpl
def rlcore_read_status(directory):
    if not (directory / "status.db").exists():
        return None  # rlcore reads its own file, which runs without this plugin have
    with closing(sqlite3.connect(directory / "status.db")) as database:
        row = database.execute("SELECT document FROM status ORDER BY rowid DESC LIMIT 1").fetchone()
    return None if row is None else json.loads(row[0])


@hookimpl
def rlcore_modify_config(document):
    environment = document.setdefault("environment", {})
    if environment is not None:
        environment.setdefault("num_envs", 16)


@hookimpl
def rlcore_check_config(config):
    from rlcore import ConfigError

    if config.env_settings.seed == -1:
        raise ConfigError("env_settings.seed: missing; set a seed, so that runs are repeatable")


@hookimpl
def rlcore_process_summary(stats):
    reward = stats.get("Environment/Cumulative Reward")
    return {"Environment/Distance": reward.mean * 0.4} if reward is not None else None


@hookimpl
def rlcore_run_started(run):
    print(f"{run.run_id} starts with seed {run.seed} in {run.directory}")


@hookimpl
def rlcore_summary_written(behavior, step, stats):
    reward = stats.get("Environment/Cumulative Reward")
    if reward is not None:
        print(f"{behavior} at {step}: {reward.mean:.1f} over {reward.count} episodes")


@hookimpl
def rlcore_evaluated(run, step, result):
    print(f"{run.run_id}: scored {result.score:.2f} at step {step}")


@hookimpl
def rlcore_checkpoint_saved(step, path):
    print(f"step {step} is saved in {path}")


@hookimpl
def rlcore_checkpoint_removed(step, path):
    print(f"step {step} is no longer in {path.parent}")


@hookimpl
def rlcore_lesson_changed(run, step, change):
    with (run.directory / "lessons.txt").open("a") as file:
        file.write(f"{step}: {change.parameter} from {change.previous_name} to {change.name}\n")


@hookimpl
def rlcore_run_finished(run, outcome, error, results):
    rewards = [f"{name} {result.mean_reward}" for name, result in results.items()]
    print(f"{run.run_id}: {outcome}; {', '.join(rewards)}" + (f" ({error})" if error else ""))


@hookimpl
def rlcore_status_printed(directory, status):
    echo(f"board: {status.get('board', {}).get('url', 'none')}")


@hookimpl
def rlcore_addhooks(manager):
    import acme_rl.hookspecs

    manager.add_hookspecs(acme_rl.hookspecs)
