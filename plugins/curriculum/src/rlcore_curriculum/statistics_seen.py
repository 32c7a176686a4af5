"""Check that the statistics in lesson criteria exist. With a misspelled tag, a lesson would never end."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from rlcore import ConfigError, KeyPath, StatSummary, Tag
from rlcore_curriculum.criterion_settings import GROUP_REWARD as GROUP_MEASURE
from rlcore_curriculum.criterion_settings import CriterionSettings

# Tags of rlcore itself. Any other tag comes from a trainer, so it shows that there was an update.
OF_RLCORE = ("Environment/", "Evaluation/", "Performance/", Tag.IS_TRAINING)
# Written together with evaluations only, which may be rarer than summaries.
OF_EVALUATIONS = "Evaluation/"


class StatisticsSeen:
    """Refuses a tag that is missing in the first complete summary of its behavior."""

    def __init__(self, criteria: Mapping[KeyPath, CriterionSettings], evaluates: bool) -> None:
        """``criteria`` by their paths in the configuration. ``evaluates``: whether the run makes evaluations."""
        self._wanted: dict[tuple[str, str], KeyPath] = {}  # (behavior, tag): the first criterion that uses it
        for path, criterion in criteria.items():
            tag = Tag.GROUP_REWARD if criterion.measure == GROUP_MEASURE else criterion.tag
            if tag is None or (evaluates and tag.startswith(OF_EVALUATIONS)):
                continue
            self._wanted.setdefault((criterion.behavior, tag), path)
        self._seen: set[tuple[str, str]] = set()

    def summarised(self, behavior: str, stats: Mapping[str, StatSummary]) -> None:
        """Raise ConfigError with the nearest tags if a summary with episodes and an update lacks a tag."""
        for wanted, path in self._wanted.items():
            measured_behavior, tag = wanted
            if measured_behavior != behavior or wanted in self._seen:
                continue
            if tag in stats:
                self._seen.add(wanted)
                continue
            has_update = any(not name.startswith(OF_RLCORE) for name in stats)
            if Tag.EPISODE_LENGTH in stats and has_update:
                close = get_close_matches(tag, stats, n=3)
                hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
                known = ", ".join(sorted(stats))
                raise ConfigError(
                    f"behavior {behavior!r} has no statistic {tag!r}{hint} (known: {known})", key=(*path, "measure")
                )

    def state_dict(self) -> dict[str, Any]:
        return {"seen": sorted(map(list, self._seen))}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._seen = {(behavior, tag) for behavior, tag in state["seen"]}
