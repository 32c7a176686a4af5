"""An evaluation does not score what an environment made of a NaN."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore import CurriculumSpec
from rlcore.errors import NonFiniteError

STUBS = [str(Path(__file__).parent / name) for name in ("stub_plugin.py", "stub_curriculum.py")]


def faulty(fault: str) -> dict[str, Any]:
    return {"environment.options": {"fault": fault, "at": 1, "env": 1}, "environment.num_envs": 2}


@pytest.mark.parametrize(
    ("fault", "what"),
    [
        ("NaN group reward", r"group reward of slot 1 \(environment 1\) is nan.* finite"),
        (
            "infinite final observation",
            r"final observation 'position' of slot 1 \(environment 1\) is \[.* finite and below 3.4e\+38, .*",
        ),
    ],
)
def test_a_value_that_is_not_finite_stops_it(make_run: Any, fault: str, what: str) -> None:
    run = make_run(faulty(fault))
    with pytest.raises(NonFiniteError, match=f"^behavior 'Agent': {what}$") as caught:
        run.evaluate(2)
    assert " while evaluating; fix the environment, or " in str(caught.value)
    run.close("interrupted")


@pytest.mark.filterwarnings("ignore:overflow")
def test_the_parameters_of_its_episode_are_told_from_the_first_observation_on(make_run: Any, files: Any) -> None:
    """Values that a float64 holds and an observation does not."""
    run = make_run(
        {
            "plugins.local": STUBS,
            "environment.type": "paced",
            "environment_parameters.pace": {"curriculum": {"type": "stages"}},
            "evaluation": {"interval": 30, "episodes": 4},
        }
    )
    stages = run.plugins.record(CurriculumSpec, "stages").resolve()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "draw_target", lambda self, env_index, episodes: np.full((len(env_index), 1), 1e300))
        with pytest.raises(NonFiniteError, match=r"observation 'pace' .*inf.* \(its episode began with pace 1e\+300\)"):
            run.train()
    assert files().best == []
