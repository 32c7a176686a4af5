"""``evaluation.environment``: merged with that of training; ``test_loads.py`` has what is written of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from rlcore.settings import EnvironmentSettings, EvaluationSettings, RunConfig, SettingError, setting

Load = Callable[..., RunConfig]


def played(config: RunConfig) -> Any:
    assert config.evaluation_environment is not None
    return config.evaluation_environment.options


def test_settings_made_in_python_without_an_environment_of_their_own_use_the_one_of_training() -> None:
    environment = EnvironmentSettings(id="here", num_envs=3)
    config = RunConfig(environment=environment, evaluation=EvaluationSettings(interval=5))
    assert config.evaluation_environment == attrs.evolve(environment, num_envs=None)
    assert (config.num_envs, RunConfig().num_envs) == (3, 1)


def test_an_inherited_value_that_only_evaluations_refuse_is_reported_where_it_is_written(
    errors: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    @attrs.frozen(kw_only=True)
    class Options:
        low: int = setting(0, "The least.")
        high: int = setting(9, "The greatest.")

        def __attrs_post_init__(self) -> None:
            if self.low > self.high:
                raise SettingError("low", f"must be at most high ({self.high})", others=("high",))

    monkeypatch.setattr("fake.GridOptions", Options)
    text = (
        "behaviors: {B: {}}\nenvironment:\n  type: grid\n  options:\n    low: 5\n"
        "evaluation:\n  interval: 9\n  environment:\n    options:\n      high: 4\n"
    )
    assert errors(text) == [
        "c.yaml:5: environment.options.low: must be at most high (4) (inherited by evaluation.environment)"
    ]
