"""The scores of groups of runs, and how the groups compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

import attrs

from rlcore_study.documents import at_path
from rlcore_study.groups import Group
from rlcore_study.runs import ReportedTraining
from rlcore_study.statistics import FEW_SEEDS, Interval, iqm, probability_of_improvement, separated_bound, smallest_p

EVALUATION = "score of the last evaluation"
TRAINING = "mean return of the last 100 training episodes"


@attrs.frozen(eq=False)
class GroupScore:
    """The scores of one group.

    Attributes:
        group: The group.
        scores: The score of each run that counts, in the order of the runs.
        left_out: The runs that do not count, with the reason.
        iqm: Their interquartile mean; None if no run counts.
    """

    group: Group
    scores: tuple[float, ...]
    left_out: tuple[tuple[ReportedTraining, str], ...]
    iqm: Interval | None


@attrs.frozen
class Pair:
    """How probable it is that a seed of ``better`` has a larger score than a seed of ``than``; names of groups.

    Attributes:
        better: The name of a group.
        than: The name of another group.
        probability: The probability with the interval of the bootstrap.
        seeds: The numbers of scores of ``better`` and of ``than``.
    """

    better: str
    than: str
    probability: Interval
    seeds: tuple[int, int]

    @property
    def separated(self) -> bool:
        """Whether every score of ``better`` is larger than every score of ``than``."""
        return self.probability.value == 1

    @property
    def could_be(self) -> float | None:
        """The smallest probability that the seeds do not exclude, if they are separated; None otherwise."""
        return separated_bound(*self.seeds) if self.separated else None

    @property
    def smallest_p(self) -> float:
        """The smallest two-sided p of the test of Mann and Whitney that so many seeds can give."""
        return smallest_p(*self.seeds)


@attrs.frozen(eq=False)
class Comparison:
    """The scores of all groups.

    Attributes:
        evaluated: Whether the score of a run is that of its last evaluation. It is if one of the runs has evaluations;
            otherwise it is the mean return of its last 100 training episodes, the mean over behaviors.
        groups: The scores of each group.
        pairs: The probability of improvement for each pair of groups with scores, in the direction in which it is at
            least one half.
    """

    evaluated: bool
    groups: tuple[GroupScore, ...]
    pairs: tuple[Pair, ...]

    @property
    def measure(self) -> str:
        """The kind of score that runs have, in words."""
        return EVALUATION if self.evaluated else TRAINING

    def score(self, run: ReportedTraining) -> float | None:
        """The score of a run, finished or not; None if there is none."""
        return run.last_score if self.evaluated else run.mean_return

    @property
    def warnings(self) -> list[str]:
        """A sentence for each run that does not count, each group with too few seeds, and each pair without overlap."""
        return list(self._warnings())

    def _warnings(self) -> Iterator[str]:
        environments = {scored.group.name: _environment(scored.group.runs[0]) for scored in self.groups}
        if len(set(environments.values())) > 1:
            learners = [f"{name} learns in {environment}" for name, environment in environments.items()]
            yield f"scores of different environments cannot be compared: {', '.join(learners)}"
        for scored in self.groups:
            name = scored.group.name
            for run, reason in scored.left_out:
                yield f"{run.name} does not count: {reason}"
            seeds = Counter(run.seed for run in scored.group.runs if run.seed is not None)
            repeated = sorted(seed for seed, count in seeds.items() if count > 1)
            if repeated:
                seed = repeated[0]
                yield f"{name}: {seeds[seed]} runs have seed {seed}; runs with equal seeds say nothing new"
            count = len(scored.scores)
            if count < FEW_SEEDS:
                yield (
                    f"{name}: {count or 'no'} seed{'s' * (count != 1)} with a score; with fewer than "
                    f"{FEW_SEEDS}, intervals are too narrow to be trusted"
                )
        for pair in self.pairs:
            if pair.could_be is not None:
                ours, theirs = pair.seeds
                yield (
                    f"{pair.better} better than {pair.than}: no scores overlap, so the interval has no width and says "
                    f"nothing; {ours} against {theirs} cannot tell 1.00 from {pair.could_be:.2f}, and equal "
                    f"configurations would be as far apart in {pair.smallest_p:.2g} of such studies (Mann and Whitney)"
                )


def compared(groups: Sequence[Group]) -> Comparison:
    """Compare the scores of ``groups``. Only runs that are done count, because others were measured earlier."""
    evaluated = any(run.last_score is not None for group in groups for run in group.runs)
    scored = tuple(_scored(group, evaluated) for group in groups)
    pairs = []
    with_scores = [group for group in scored if group.scores]
    for better, other in combinations(with_scores, 2):
        probability = probability_of_improvement([better.scores], [other.scores])
        if probability.value < 0.5:
            better, other = other, better
            probability = probability.reversed
        seeds = (len(better.scores), len(other.scores))
        pairs.append(Pair(better.group.name, other.group.name, probability, seeds))
    return Comparison(evaluated, scored, tuple(pairs))


def _scored(group: Group, evaluated: bool) -> GroupScore:
    scores: list[float] = []
    left_out: list[tuple[ReportedTraining, str]] = []
    for run in group.runs:
        score = run.last_score if evaluated else run.mean_return
        if run.outcome == "failed":
            left_out.append((run, "it failed"))
        elif run.outcome != "done":
            left_out.append((run, f"it is {run.outcome}"))
        elif score is None:
            left_out.append((run, "it has no evaluation" if evaluated else "no episode has ended"))
        else:
            scores.append(score)
    mean = iqm([scores]) if scores else None
    return GroupScore(group, tuple(scores), tuple(left_out), mean)


def _environment(run: ReportedTraining) -> str:
    names = [at_path(run.data.configuration, "environment", key) for key in ("type", "id")]
    return " ".join(str(name) for name in names if name is not None)
