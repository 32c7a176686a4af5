"""The hooks and settings of acme-ghost. rlcore imports this module at every start, so it must not import numpy."""

import attrs

from rlcore import BehaviorSection, ConfigError, hookimpl, setting


@attrs.frozen(kw_only=True)
class EarlierSelvesSettings:
    """Keys of the block earlier_selves of a behavior; they mean what those of self_play mean."""

    save_steps: int = setting(20_000, "Agent steps of the trainer between two snapshots.", minimum=1)
    window: int = setting(10, "Number of snapshots to keep; a new one replaces the oldest.", minimum=1)
    play_against_latest_model_ratio: float = setting(
        0.5, "Share of episodes against the current policy instead of a snapshot.", minimum=0.0, maximum=1.0
    )


@hookimpl
def rlcore_config_sections():
    target, summary = "acme_ghost.plugin:EarlierSelvesSettings", "opponents that are earlier policies"
    return [BehaviorSection(name="earlier_selves", target=target, summary=summary)]


@hookimpl
def rlcore_create_trainer(spec, settings, behavior, run):
    earlier_selves = settings.sections.get("earlier_selves")
    if earlier_selves is None or run.inference:
        return None  # the trainer of the next plugin, or of rlcore
    if behavior.team is None or len(set(behavior.team.tolist())) != 2:
        raise ConfigError(f"behaviors.{behavior.name}.earlier_selves: needs agents of two teams in every environment")
    from acme_ghost.trainer import GhostTrainer

    learning = (behavior.team == behavior.team.min()) == (behavior.env_index % 2 == 0)  # [S] another team in odd ones
    learners = behavior.take(learning.nonzero()[0])
    trainer = run.plugins.create(spec, settings=settings, behavior=learners, run=run, without="acme-ghost")
    return GhostTrainer(trainer, earlier_selves, learning, behavior.name, run.seed)
