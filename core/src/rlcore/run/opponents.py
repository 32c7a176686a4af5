"""The opponent ``run``: the policy of a checkpoint of another run. Nothing in that run is changed."""

from __future__ import annotations

from typing import cast

import attrs

from rlcore.contracts.environment import BehaviorSpec, spec_mismatch
from rlcore.contracts.policy import Policy
from rlcore.errors import ConfigError, RunStateError, did_you_mean
from rlcore.plugins.calls import Plugins
from rlcore.plugins.run_context import RunContext
from rlcore.run.saved import PolicySource
from rlcore.settings import RunOpponentSettings


def policy_of_run(settings: RunOpponentSettings, behavior: BehaviorSpec, run: RunContext) -> Policy:
    """The saved policy that ``settings`` name, for rows of ``behavior``.

    Raises ConfigError, with the key of ``settings`` that is wrong, if there is no such policy, and if it sees or does
    something else than the agents of ``behavior``. The plugins of ``run`` create the policy.
    """
    path = run.absolute(settings.path)
    if not path.exists():
        path = run.directory.parent / settings.path  # the id of a run beside this one
    try:
        source = PolicySource.find(path)
    except RunStateError as error:
        problem = f"{settings.path}: is neither a run nor a checkpoint, so there is no policy to play against"
        raise ConfigError(problem, key=("path",)) from error
    try:
        saved = source.load(cast(Plugins, run.plugins), str(settings.checkpoint))
        specs = saved.specs
    except RunStateError as error:
        raise ConfigError(str(error), key=("checkpoint",)) from error
    name = settings.behavior
    if name is None:
        name = next(iter(specs)) if len(specs) == 1 else behavior.name
    if name not in specs:
        problem = f"{settings.path} has no behavior {name!r}; it has {', '.join(specs)}{did_you_mean(name, specs)}"
        raise ConfigError(problem, key=("behavior",))
    mismatch = spec_mismatch(specs[name], behavior)
    if mismatch:
        problem = f"the policy {name!r} of {settings.path} cannot play for behavior {behavior.name!r}: {mismatch}"
        raise ConfigError(problem, key=("path",))
    return saved.policies({name: attrs.evolve(behavior, name=name)})[name]
