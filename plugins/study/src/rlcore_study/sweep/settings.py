"""The block ``sweep`` of a configuration: which parameters are searched, how, and what a trial is worth."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from math import prod
from typing import Any

import attrs

from rlcore import SettingError, did_you_mean, name_problem, pip_install, setting

Number = int | float
MAX_TRIALS = 10_000
MAX_GRID = 100_000  # points of a grid, all of which the sampler holds in memory


def _hashable(value: Any) -> Any:
    """The value as one that a set may have; two are equal if the values are."""
    if isinstance(value, Mapping):
        return frozenset((key, _hashable(entry)) for key, entry in value.items())
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    return value


@attrs.frozen(kw_only=True)
class ParameterSettings:
    """One parameter: a range from ``low`` to ``high``, or ``choices``.

    A range is one of whole numbers if ``low`` and ``high`` are whole numbers, and ``step`` is one or is left out.
    """

    low: int | float | None = setting(None, "Smallest value of a range.")
    high: int | float | None = setting(None, "Largest value of a range, which is included.")
    log: bool = setting(False, "Search the logarithm of the value.")
    step: int | float | None = setting(None, "Distance between the values of a range.", exclusive_minimum=0)
    choices: list[Any] | None = setting(None, "The values, of any kind, instead of a range.")
    when: dict[str, Any] = setting(
        factory=dict,
        description="Other parameters, each with the value or the list of values with which this one is searched; "
        "otherwise the value of the file stays.",
    )

    def __attrs_post_init__(self) -> None:
        if self.choices is not None:
            of_range = [name for name in ("low", "high", "step") if getattr(self, name) is not None]
            if self.log:
                of_range.append("log")
            if of_range:
                raise SettingError("choices", f"cannot be combined with {of_range[0]}")
            different = set(map(_hashable, self.choices))
            if not self.choices or len(different) < len(self.choices):
                raise SettingError("choices", "must be a list of different values, at least one")
            return
        if self.low is None or self.high is None:
            missing = "low" if self.low is None else "high"
            raise SettingError(missing, "is missing; give low and high, or choices", others=("low", "high"))
        if not self.low < self.high:
            raise SettingError("low", f"must be less than high, {self.high!r}", others=("high",))
        if self.log and self.low <= 0:
            raise SettingError("low", "must be greater than 0 with log: true", others=("log",))
        if self.log and self.step is not None:
            raise SettingError("step", "cannot be combined with log: true", others=("log",))

    @property
    def whole(self) -> bool:
        """Whether the values of the range are whole numbers."""
        return all(isinstance(number, int) for number in (self.low, self.high, self.step or 1))

    @property
    def points(self) -> int:
        """The number of values on a grid, which has none for a range without steps; at least MAX_GRID + 1 counts so."""
        if self.choices is not None:
            return len(self.choices)
        assert self.low is not None and self.high is not None
        step = self.step or 1
        if self.whole:
            return int(self.high - self.low) // int(step) + 1
        steps = (self.high - self.low) / step
        if steps >= MAX_GRID:
            return MAX_GRID + 1
        return int(steps + 1e-9) + 1  # 0.3 / 0.1 is a little less than 3

    def has(self, value: Any) -> bool:
        """Whether a trial can have this value."""
        if self.choices is not None:
            return any(
                type(value) is type(choice) and value == choice for choice in self.choices
            )  # 1, 1.0, True differ
        numbers = int if self.whole else int | float
        if isinstance(value, bool) or not isinstance(value, numbers):
            return False
        assert self.low is not None and self.high is not None
        return bool(self.low <= value <= self.high)


@attrs.frozen(kw_only=True)
class EnvironmentCase:
    """One of several environments in which every trial trains."""

    values: dict[str, Any] = setting(description="Keys of the configuration in this environment, by dotted path.")
    target: float = setting(description="Score that counts as 1.")
    floor: float = setting(0.0, "Score that counts as 0, such as that of random actions.")

    def __attrs_post_init__(self) -> None:
        if self.target == self.floor:
            raise SettingError("target", "must differ from floor", others=("floor",))


def _environments_problem(value: Mapping[str, Any]) -> str | None:
    for name in value:
        problem = name_problem("the name of an environment", name)
        if problem:
            return problem
    return None


@attrs.frozen(kw_only=True)
class SweepSettings:
    """The search of ``rlcore sweep``. Only ``trials`` and ``jobs`` of a sweep that has begun may change."""

    trials: int = setting(20, "Trials in all; a later command may raise it.", minimum=1, maximum=MAX_TRIALS)
    jobs: int = setting(1, "Trials that train at the same time.", minimum=1, maximum=256)
    seed: int = setting(1, "Seed of the sampler.", minimum=0, maximum=2**31 - 1)
    metric: str = setting(
        "evaluation",
        "What a run is worth: the score of its last evaluation, that of its best one, or the mean reward of its last "
        "100 training episodes, averaged over behaviors.",
        choices=("evaluation", "best_evaluation", "reward"),
    )
    direction: str = setting("maximize", "Whether more or less is better.", choices=("maximize", "minimize"))
    parameters: dict[str, ParameterSettings] = setting(
        description="The parameters, by the dotted path of their key in the configuration."
    )
    sampler: str = setting(
        "tpe",
        "How parameters are chosen. tpe: by a model of good and bad trials. cmaes: by a normal distribution that moves "
        "to where good trials are; it draws choices at random, learns nothing from pruned trials, refuses when, and "
        "needs rlcore-study[cmaes]. random: at random. grid: every combination once, in a random order; ranges need a "
        "step, and when is refused.",
        choices=("tpe", "cmaes", "random", "grid"),
    )
    startup_trials: int = setting(
        5,
        "Trials that must be complete before tpe and cmaes learn from them, and before pruner median ends one.",
        minimum=1,
    )
    pruner: str | None = setting(
        None,
        "What ends hopeless trials after an evaluation; null ends none. median: trials whose best evaluation so far is "
        "worse than the median of the complete trials at this evaluation. successive-halving: trials not among the "
        "best of reduction_factor at the evaluations 1, 3, 9, ... hyperband: as successive-halving, with several "
        "first evaluations, one for each bracket of trials.",
        choices=("median", "hyperband", "successive-halving"),
    )
    prune_after: int = setting(1, "Evaluations that every trial gets before the pruner may end it.", minimum=1)
    reduction_factor: int = setting(
        3, "Of how many trials hyperband and successive-halving let one continue.", minimum=2
    )
    seeds: list[int] = setting(
        factory=list,
        description="Seeds with which every trial trains, one run for each; by default env_settings.seed, or the seed "
        "of the sweep.",
        minimum=0,
        maximum=2**31 - 1,
    )
    environments: dict[str, EnvironmentCase] = setting(
        factory=dict,
        description="Environments in which every trial trains, one run for each and each seed, by a name. A trial is "
        "worth the mean of (score - floor) / (target - floor).",
        check=_environments_problem,
    )
    unseen: int | None = setting(
        None,
        "How many of the trials directly before it a trial does not know the results of; by default jobs - 1.",
        minimum=0,
    )

    def __attrs_post_init__(self) -> None:
        if not self.parameters:
            raise SettingError("parameters", "is empty; name at least one parameter")
        names = list(self.parameters)
        for number, (name, parameter) in enumerate(self.parameters.items()):
            for other in parameter.when:
                if other in names[:number]:
                    continue
                problem = "comes later; move it up"
                if other not in names:
                    problem = f"is not a parameter{did_you_mean(other, names)}"
                raise SettingError("parameters", f"{name}: when: {other} {problem}")
            if self.sampler == "grid" and parameter.when:
                raise SettingError("parameters", f"{name}: when cannot be combined with sampler: grid")
            has_points = parameter.choices is not None or parameter.step is not None or parameter.whole
            if self.sampler == "grid" and not has_points:
                raise SettingError("parameters", f"{name}: sampler: grid needs a step, or choices")
        if self.sampler == "grid" and self.grid_points > MAX_GRID:
            problem = f"has {self.grid_points:,} points with these steps; at most {MAX_GRID:,} are allowed"
            raise SettingError("parameters", f"sampler: grid {problem}, so take larger steps, or another sampler")
        if self.sampler == "cmaes":
            self._check_cmaes()
        if len(set(self.seeds)) < len(self.seeds):
            raise SettingError("seeds", "must differ")

    def _check_cmaes(self) -> None:
        for name, parameter in self.parameters.items():
            if parameter.when:
                raise SettingError("parameters", f"{name}: when cannot be combined with sampler: cmaes")
        if all(parameter.choices is not None for parameter in self.parameters.values()):
            raise SettingError("parameters", "sampler: cmaes needs a range; choices are drawn at random")
        if find_spec("cmaes") is None:
            advice = pip_install("rlcore-study[cmaes]")
            raise SettingError("sampler", f"cmaes needs a package that is missing; {advice}")

    @property
    def grid_points(self) -> int:
        """The number of points of the grid of all parameters."""
        return prod(parameter.points for parameter in self.parameters.values())

    @property
    def lag(self) -> int:
        """How many of the trials directly before it a trial does not know the results of."""
        return self.jobs - 1 if self.unseen is None else self.unseen

    def normalized(self, environment: str, score: float) -> float:
        """The score of a run as a share of what its environment counts as 1; unchanged without environments."""
        case = self.environments.get(environment)
        if case is None:
            return score
        return (score - case.floor) / (case.target - case.floor)
