"""The environment of an evaluation: overrides of the training's, and errors that name the key of the block."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import hookimpl
from rlcore.config.problems import ConfigErrors
from rlcore.errors import ConfigError
from rlcore.run.run import Run


def test_overrides_are_merged_into_the_environment_block(make_run: Any) -> None:
    overrides = {"num_envs": 5, "options": {"fault": "group reward now and then"}}
    block = {"interval": 100, "episodes": 3, "environment": overrides}
    run = make_run({"environment.options": {"length": 6}, "evaluation": block})
    run.start()
    evaluating = run._training.evaluations.evaluator._environment._environment
    training = run.environment
    assert (evaluating.fault, evaluating.length, evaluating.num_envs) == ("group reward now and then", 6, 5)
    assert (training.fault, training.length, training.num_envs) == ("", 6, 2)
    run.close()


def test_another_kind_takes_no_options_over_and_some_environment_is_needed(make_run: Any, configure: Any) -> None:
    block = {"interval": 100, "environment": {"type": "uneven"}}
    run = make_run({"environment.options": {"length": 4}, "evaluation": block})
    with pytest.raises(
        ConfigError, match=r"environment 'uneven' to evaluate in: behavior 'Agent': observation 'position'"
    ):
        run.start()
    with pytest.raises(ConfigErrors, match="evaluation: there is no environment to evaluate in"):
        Run(configure({"environment": None, "evaluation": {"interval": 5}}))


REFUSALS = yaml.safe_load((Path(__file__).parent / "data/refusals.yaml").read_text())["evaluations"]


@pytest.mark.parametrize(("block", "told"), REFUSALS)
def test_what_is_wrong_with_the_block_is_told_at_its_own_line(
    block: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stubs = Path(__file__).parent / "stub_plugin.py"
    Path("c.yaml").write_text(
        f"behaviors: {{Agent: {{trainer_type: numpy}}}}\nenvironment: {{type: corridor}}\n"
        f"plugins: {{autoload: false, local: ['{stubs}']}}\n\nevaluation:\n  {block}\n"
    )
    with pytest.raises(ConfigErrors) as refused:
        Run("c.yaml")
    assert refused.value.messages[0].startswith(told) and len(refused.value.messages) == 1


def test_an_error_is_located_in_the_evaluation_block_if_only_this_block_has_the_value(make_run: Any) -> None:
    refused = {
        "environment.options.length": True,
        "environment.id": False,
        "": False,
    }

    class Refuses:
        """Refuses the environments of evaluations, each for another key."""

        keys = iter(refused)

        @hookimpl(tryfirst=True)
        def rlcore_create_environment(self, run: Any) -> None:
            if run.purpose == "evaluate":
                raise ConfigError("is wrong", key=tuple(filter(None, next(self.keys).split("."))))

    run = make_run({"evaluation": {"interval": None, "environment": {"options": {"length": 7}}}})
    run.plugins.register(Refuses(), "refuses")
    for key, only_evaluations_have_it in refused.items():
        with pytest.raises(ConfigError) as caught:
            run.evaluate(2)
        path = f"evaluation.{key}" if only_evaluations_have_it else key
        assert str(caught.value) == (f"{path}: is wrong" if path else "is wrong")
