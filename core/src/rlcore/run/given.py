"""Creates the environment of ``environment.type: program``: one that a Python program gives to its run."""

from __future__ import annotations

from rlcore.contracts.environment import Environment
from rlcore.errors import ConfigError, EnvironmentFailed, repeating
from rlcore.plugins.context import RunContext
from rlcore.plugins.known import ENVIRONMENT_OPTIONS_EXAMPLE
from rlcore.settings import EnvironmentSettings


def make_given(settings: EnvironmentSettings, run: RunContext) -> Environment:
    """Create the environment from ``run.given``, with the adapter of the first plugin that knows its kind.

    Raises ConfigError if no program gave one, if an evaluation would need the one object that training uses, and if no
    plugin knows the kind of the object. Raises EnvironmentFailed if the function that makes it fails.
    """
    given = run.given
    problem = ""
    if given is None:
        problem = (
            "is given by a Python program, in Run(config, environment=...), and a file cannot make it: run, resume and "
            f"evaluate it with that program, or name an environment with {ENVIRONMENT_OPTIONS_EXAMPLE}"
        )
    elif run.purpose == "evaluate" and not callable(given):
        problem = (
            "is one object, which training uses, and an evaluation needs its own: give a function that makes one, "
            "such as Run(config, environment=lambda: MyEnv()), or name one in evaluation.environment"
        )
    if problem:
        raise ConfigError(problem, key=("environment",))
    try:
        made = given() if callable(given) else given
    except (Exception, SystemExit) as error:
        raise repeating(error, "Run(config, environment=...): the function failed", EnvironmentFailed) from error
    if isinstance(made, Environment):
        return made
    adapting = [each for each in run.plugins.records("environment") if getattr(each, "adapter", None)]
    for record in adapting:
        adapted: Environment | None = record.resolve("adapter")(made, settings, run)
        if adapted is not None:
            return adapted
    kinds = ", ".join(["rlcore.Environment", *(record.name for record in adapting)])
    raise ConfigError(
        f"Run(config, environment=...): {type(made).__module__}.{type(made).__qualname__} is not an environment of a "
        f"kind that a plugin knows ({kinds}); give an environment, or a function without arguments that makes one"
    )
