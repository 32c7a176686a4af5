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
    return [
        BehaviorSection(
            name="earlier_selves",
            target="acme_ghost.plugin:EarlierSelvesSettings",
            summary="opponents that are earlier policies",
        )
    ]


@hookimpl
def rlcore_create_trainer(spec, settings, behavior, run):
    earlier_selves = settings.sections.get("earlier_selves")
    if earlier_selves is None or run.inference:
        return None  # the trainer of the next plugin, or of rlcore
    if behavior.team is None or len(set(behavior.team.tolist())) != 2:
        raise ConfigError(f"behaviors.{behavior.name}.earlier_selves: needs agents of two teams in every environment")
    from acme_ghost.trainer import GhostTrainer

    # One team learns in environments with even numbers and the other one in odd ones, so the policy learns both sides.
    first_team = behavior.team == behavior.team.min()
    even = behavior.env_index % 2 == 0
    learning = first_team == even  # [S]
    (rows,) = learning.nonzero()
    learners = behavior.take(rows)
    trainer = run.plugins.create(spec, settings=settings, behavior=learners, run=run, without="acme-ghost")
    return GhostTrainer(trainer, earlier_selves, learning, behavior.name, run.seed)
