"""The block ``self_play`` of a behavior, opponents, and their keys of the ``evaluation`` block.

This module imports no numpy, because checking a configuration imports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from rlcore import (
    Choice,
    NotInstalled,
    PluginError,
    SettingError,
    TrainerSpec,
    did_you_mean,
    is_plain_name,
    read_settings,
    setting,
)
from rlcore_ghost.records import OpponentSamplerSpec

if TYPE_CHECKING:
    from rlcore import BehaviorSettings, Plugins, Registry, RunConfig

__all__ = [
    "AgainstSettings",
    "EarlierOpponentSettings",
    "LeagueSettings",
    "NoParameters",
    "OpponentSettings",
    "PrioritizedParameters",
    "SelfPlaySettings",
]

SHARED = ("elo_advantage", "elo_k", "result", "truncated_games")  # settings that all behaviors of a run have in common
INFO = "info."  # before the name of a number that the environment reports of ended episodes


def _result_problem(rule: str) -> str | None:
    names_info = rule.startswith(INFO) and len(rule) > len(INFO)
    if names_info or rule in ("reward", "return"):
        return None
    return f"must be reward, return or {INFO}NAME"


@attrs.frozen(kw_only=True)
class OpponentSettings:
    """Settings of every opponent; the settings class of a plugin's opponent derives from this class.

    A block of a plugin may have a field of type ``dict[str, OpponentSettings]``, read as ``evaluation.opponents`` is:
    each entry becomes an instance of the class that the record of its type names.
    :func:`rlcore_ghost.create_opponents` creates the opponents.

    Attributes:
        chosen: The kind of record that ``type`` names.
    """

    chosen: ClassVar[Choice] = Choice("opponent")

    type: str | None = setting(
        None,
        "Type of opponent: a registered name, or DISTRIBUTION/NAME; by default, the name of the block.",
        foreign=True,
    )


def _checkpoint_problem(value: int | str) -> str | None:
    if value in ("last", "best") or str(value).isdecimal():
        return None
    return "must be last, best or a step"


@attrs.frozen(kw_only=True)
class EarlierOpponentSettings(OpponentSettings):
    """Settings of the opponent ``run``, the policy of a checkpoint of another run."""

    path: str = setting(
        description="Directory of a run or of one of its checkpoints, or the id of a run beside this one.",
        foreign=is_plain_name,
    )
    checkpoint: int | str = setting(
        "last",
        "Which checkpoint of the run: last, best or a step.",
        check=_checkpoint_problem,
        foreign=True,
    )
    behavior: str | None = setting(
        None,
        "Behavior of the run whose policy plays; by default, the one of the same name, or the only one.",
        foreign=True,
    )


@attrs.frozen(kw_only=True)
class AgainstSettings:
    """Opponents of evaluations, which play the other teams."""

    opponents: dict[str, OpponentSettings] = setting(
        factory=dict,
        description="Opponents by name, with type and settings; the policies play `episodes` episodes against each.",
    )
    score_against: str | None = setting(
        None,
        "The opponent whose mean reward is the score; by default, the score is the mean over all opponents.",
        foreign=True,
    )

    def __attrs_post_init__(self) -> None:
        if self.score_against is not None and self.score_against not in self.opponents:
            problem = "opponents is empty, so there is no opponent to score against"
            if self.opponents:
                has = ", ".join(self.opponents)
                hint = did_you_mean(self.score_against, self.opponents)
                problem = f"opponents has no {self.score_against!r}; it has {has}{hint}"
            raise SettingError("score_against", problem, others=("opponents",))


@attrs.frozen(kw_only=True)
class LeagueSettings:
    """A league: beside the main policy, exploiters learn to beat it, in environments of their own."""

    main_exploiters: int = setting(1, "Number of policies that learn against the main policy only.", minimum=0)
    league_exploiters: int = setting(
        1, "Number of policies that learn against the snapshots of all policies of the league.", minimum=0
    )
    share: float = setting(
        0.2, "Share of the environments that each exploiter plays in; at least one.", exclusive_minimum=0, maximum=0.5
    )
    reset_result: float = setting(
        0.7, "Mean result of an exploiter's games, 0 to 1, at which it starts again.", minimum=0.5, maximum=1.0
    )
    reset_steps: int | None = setting(
        None,
        "Agent steps after which an exploiter starts again at the latest; 10 * `save_steps` by default.",
        minimum=1,
    )


@attrs.frozen(kw_only=True)
class SelfPlaySettings:
    """Self-play: a behavior learns from games against earlier versions of itself. Names and counting are ML-Agents'."""

    # Keys and defaults up to `initial_elo` are ML-Agents' (`SelfPlaySettings` in settings.py).
    save_steps: int = setting(20_000, "Agent steps of the trainer between two snapshots.", minimum=1)
    team_change: int | None = setting(
        None, "Agent steps of the trainer until another team learns; 5 * `save_steps` by default.", minimum=1
    )
    swap_steps: int = setting(2000, "Agent steps of the other teams until they get other opponents.", minimum=1)
    window: int = setting(10, "Number of snapshots to keep; a new one replaces the oldest.", minimum=1)
    play_against_latest_model_ratio: float = setting(
        0.5, "Probability that an opponent is the policy as it is at the swap.", minimum=0.0, maximum=1.0
    )
    initial_elo: float = setting(1200.0, "Elo rating that players begin with.")
    # In a simulation of eight players 150 points apart, predictions after 5,600 games are off by 0.11 with K = 1, and
    # by 0.02 with K = 16.
    elo_k: float = setting(16.0, "K factor of the Elo rating; ML-Agents has 1.", exclusive_minimum=0.0)
    elo_advantage: bool = setting(
        True, "Whether the Elo rating estimates the advantage of each team of a behavior, such as the first move."
    )
    opponents: str = setting(
        "uniform",
        "How stored policies are chosen: uniform, latest, pfsp, fixed, or a plugin's sampler.",
        foreign=True,
    )
    opponents_parameters: dict[str, Any] = setting(factory=dict, description="Settings of the sampler of opponents.")
    fixed_opponents: dict[str, OpponentSettings] = setting(
        factory=dict,
        description="Opponents by name that never change, chosen beside the snapshots: a run, or a plugin's opponent.",
    )
    # ML-Agents has one opponent at a time for all environments.
    opponents_per: str = setting(
        "env", "Whether a swap chooses opponents for each environment, or for the whole run.", choices=("env", "run")
    )
    learn_from: str = setting(
        "learning_team",
        "Whether only the learning team learns, or all agents that play as the current policy.",
        choices=("learning_team", "all"),
    )
    result: str = setting(
        "reward",
        "What decides a game: the sign of the final `reward` (with the group's), the `return`, or `info.NAME`, a "
        "number that the environment reports at the end.",
        check=_result_problem,
        foreign=True,
    )
    # ML-Agents rates no interrupted game either.
    truncated_games: str = setting(
        "skip", "How a game that a time limit cut off is rated: not at all, or by its result.", choices=("skip", "rate")
    )

    league: LeagueSettings | None = setting(
        None, "Exploiters that learn beside the main policy, and whose snapshots it plays against too."
    )

    def __attrs_post_init__(self) -> None:
        # A sampler without a candidate could not choose.
        if self.opponents == "fixed" and not self.fixed_opponents:
            raise SettingError("opponents", "fixed needs fixed_opponents", others=("fixed_opponents",))

    @property
    def team_change_steps(self) -> int:
        """``team_change``, or its default."""
        return 5 * self.save_steps if self.team_change is None else self.team_change

    def sampler_spec(self, plugins: Registry) -> OpponentSamplerSpec:
        """Return the record of the sampler. Raises NotInstalled or PluginError if ``opponents`` names none."""
        return plugins.record(OpponentSamplerSpec, self.opponents)

    def read_sampler(self, plugins: Registry) -> tuple[Any, Any]:
        """Return the sampler's own settings, and what is wrong with them: pairs of a path and a message."""
        settings = self.sampler_spec(plugins).resolve("settings")
        return read_settings(settings, dict(self.opponents_parameters))

    def shared_problem(self, key: str, name: str, other: SelfPlaySettings) -> str | None:
        """Return what is wrong if ``key`` is not that of ``other``, the block of the behavior ``name``."""
        value = getattr(self, key)
        first = getattr(other, key)
        if value == first:
            return None
        return (
            f"{value!r} differs from {first!r} of behavior {name!r}; all behaviors with self-play need the same value"
        )

    def problems(
        self, behavior: BehaviorSettings, config: RunConfig, plugins: Plugins
    ) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield the mistakes that show without the environment: the path within the block, and a message."""
        if plugins.record(TrainerSpec, behavior.trainer_type).offline:
            yield (
                (),
                f"trainer {behavior.trainer_type!r} learns from recorded data and plays no games; remove the block",
            )
        try:
            wrong = self.read_sampler(plugins)[1]
        except (NotInstalled, PluginError) as error:
            yield ("opponents",), str(error)
        else:
            for path, message in wrong:
                yield ("opponents_parameters", *path), message
        first = ""
        other = self
        for name, settings in config.behaviors.items():
            block = settings.sections.get("self_play")
            if block is not None:
                first = name
                other = block
                break
        for shared in SHARED:
            problem = self.shared_problem(shared, first, other)
            if problem is not None and behavior is not config.default_settings:
                yield (shared,), problem


@attrs.frozen(kw_only=True)
class NoParameters:
    """The settings of a sampler of opponents that has none."""


@attrs.frozen(kw_only=True)
class PrioritizedParameters:
    """The settings of the sampler ``pfsp``, prioritized fictitious self-play."""

    weighting: str = setting(
        "hard",
        "Weight of an opponent beaten with probability x: hard (1-x)^power, variance x(1-x).",
        choices=("hard", "variance"),
    )
    power: float = setting(2.0, "Exponent of the weighting hard.", exclusive_minimum=0.0)

    def __attrs_post_init__(self) -> None:
        if self.weighting != "hard" and self.power != 2.0:
            raise SettingError("power", "is of the weighting hard only", others=("weighting",))
