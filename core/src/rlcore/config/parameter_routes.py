"""``environment.parameters``, which says how parameters reach the environment, beside ``environment_parameters``."""

from __future__ import annotations

from collections.abc import Iterable

from rlcore.config.problems import KeyPath
from rlcore.config.structure import Problems
from rlcore.errors import did_you_mean
from rlcore.settings import RunConfig


def check_routes(config: RunConfig, problems: Problems) -> None:
    """Notes the entries that are of no environment parameter: a name is misspelt in one of the two places."""
    names = dict.fromkeys(config.environment_parameters)
    routes: dict[KeyPath, Iterable[str]] = {}
    if config.environment is not None:
        routes["environment", "parameters"] = config.environment.parameters
    if config.evaluation is not None:
        names |= dict.fromkeys(config.evaluation.environment_parameters)
        routes["evaluation", "environment", "parameters"] = config.evaluation.environment.get("parameters", {})
    for path, routed in routes.items():
        for name in routed:
            if name not in names:
                problems.add((*path, name), f"environment_parameters has no {name!r}{did_you_mean(name, names)}")
