"""Runs with ``evaluation.opponents``: results everywhere, the best checkpoint, a resume, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import table_game

from rlcore import hookimpl
from rlcore.contracts.results import EvaluationResult
from rlcore.errors import ConfigError, PluginError
from rlcore.run.run import Run
from rlcore.storage.checkpoint import load_checkpoint
from rlcore_devkit.fixtures import RunRlcore

GAMES = table_game.__file__
ALL = {"random": {}, "rock": {"type": "always", "option": 0}, "paper": {"type": "always", "option": 1}}
TABLE: dict[str, Any] = {"environment": {"type": "table", "num_envs": 1}}


def evaluating(opponents: Any = ALL, **settings: Any) -> dict[str, Any]:
    return {**TABLE, "evaluation": {"interval": 50, "episodes": 12, "opponents": opponents, **settings}}


@pytest.fixture
def configure(configure: Callable[..., Any]) -> Callable[..., Any]:
    """Runs whose local plugins have the table game and its opponents."""

    def make(changes: Any = None, **keywords: Any) -> Any:
        config = configure(changes, **keywords)
        config["plugins"]["local"].append(str(GAMES))
        config["plugins"]["enable"] = ["rlcore-ghost/ghost"]
        return config

    return make


def results_of(run: Run) -> list[EvaluationResult]:
    """Trains to the end; the results that plugins receive."""
    heard: list[EvaluationResult] = []

    class Hears:
        @hookimpl
        def rlcore_evaluated(self, result: EvaluationResult) -> None:
            heard.append(result)

    run.plugins.register(Hears(), "hears")
    run.train()
    return heard


def test_a_result_against_each_opponent_is_told(make_run: Any, files: Any, capsys: pytest.CaptureFixture[str]) -> None:
    heard = results_of(make_run({**evaluating(), "stats": {"console": {}}}))
    assert len(heard) == 4
    last = heard[-1]
    assert list(last.opponents) == ["random", "rock", "paper"]
    assert all(each.episodes == 12 and sorted(each.teams) == [0] * 6 + [1] * 6 for each in last.opponents.values())
    assert last.score == pytest.approx(np.mean([each.mean_reward for each in last.opponents.values()]))
    assert last.behaviors["Agent"].episodes == 36, "the agents that learn, against all"
    saved = load_checkpoint(files().path / "checkpoints" / str(files().steps[-1]))
    for name, result in zip((0, 1), (last.opponents["rock"], last.opponents["paper"]), strict=True):
        option = 2 if saved["Agent"]["model"]["weights"].sum() >= 0 else 0  # the numpy policy takes the last or first
        assert result.mean_reward == {0: 0.0, 1: 1.0, 2: -1.0}[(option - name) % 3]
    line = files().metrics[-1]["stats"]
    for name, result in last.opponents.items():
        assert line[f"Evaluation/Reward against {name}"] == result.mean_reward
        assert line[f"Evaluation/Win Rate against {name}"] == result.win_rate
        assert line[f"Evaluation/Draw Rate against {name}"] == result.draw_rate
    written = files().result["evaluation"]
    assert written["score"] == last.score
    assert written["opponents"] == {name: result.summary for name, result in last.opponents.items()}
    shown = ", ".join(f"{name} {result.mean_reward:.3f}" for name, result in last.opponents.items())
    assert f"Evaluation: {last.score:.3f} ({shown})." in capsys.readouterr().out.splitlines()[-1]


def test_one_opponent_may_decide_the_score_and_without_opponents_nothing_is_added(make_run: Any, files: Any) -> None:
    results = results_of(make_run(evaluating(score_against="paper")))
    assert all(result.score == result.opponents["paper"].mean_reward for result in results)
    forced = {"evaluation": {"interval": 100, "episodes": 4}, "checkpoint_settings.force": True}
    (first, _) = results_of(make_run({**TABLE, **forced}))
    assert first.to_json().keys() == {"behaviors"} and first.behaviors["Agent"].episodes == 8
    assert "opponents" not in files().result["evaluation"]
    assert not any("against" in tag for line in files().metrics for tag in line["stats"])


# ---------------------------------------------------------------- the opponent run


@pytest.fixture
def old(make_run: Any, files: Any) -> Path:
    """A run that is over, with checkpoints and a best one."""
    make_run({**evaluating({"random": {}}), "checkpoint_settings.run_id": "old"}).train()
    return Path(files("old").path)


def against(old: Path, **settings: Any) -> dict[str, Any]:
    return evaluating({"before": {"type": "run", "path": str(old), **settings}})


def test_a_checkpoint_of_another_run_plays_and_that_run_stays_as_it_is(make_run: Any, files: Any, old: Path) -> None:
    """Equal policies take the same option all the time, so that every game is drawn; a run beside it has its id."""
    before = files("old").everything()
    single = against(old / "checkpoints" / str(files("old").steps[0]))
    chosen = [against(old, checkpoint=checkpoint) for checkpoint in ("last", "best", files("old").steps[0])]
    for settings in (*chosen, single, against(Path("old"))):
        run = make_run({**settings, "checkpoint_settings": {"run_id": "new", "force": True}})
        last = [result.opponents["before"] for result in results_of(run)][-1]
        assert last.episodes == 12
    assert last.draw_rate == 1.0, "a run ties with itself"
    assert files("old").everything() == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"path": "results/gone"}, "path: results/gone: there is no policy to play against"),
        ({"checkpoint": 7}, "checkpoint: .*there is no checkpoint '7'; there are 40, 80"),
        ({"behavior": "Agnet"}, "behavior: .* has no behavior 'Agnet'; it has Agent; did you mean 'Agent'"),
    ],
)
def test_a_policy_that_is_not_there_is_refused(make_run: Any, old: Path, changes: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"evaluation\.opponents\.before\.{message}"):
        make_run({**against(old, **changes), "checkpoint_settings.run_id": "new"}).train()


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("changes", [{"environment.type": "corridor"}, {"environment.options": {"teams": [3, 3]}}])
def test_an_environment_without_teams_is_refused(make_run: Any, changes: Any) -> None:
    with pytest.raises(ConfigError, match=r"evaluation\.opponents: all agents are in team [03], so no opponent"):
        make_run({**evaluating(), **changes}).train()


def test_fewer_episodes_than_teams_are_refused(make_run: Any) -> None:
    with pytest.raises(ConfigError, match=r"evaluation\.episodes: must be at least 2, the number of teams"):
        make_run(evaluating(episodes=1)).train()


def test_an_opponent_that_fails_is_named_with_its_plugin(make_run: Any) -> None:
    message = r"opponent 'broken' of plugin 'table_game'.* failed in act: ZeroDivisionError: the tree is empty"
    with pytest.raises(PluginError, match=message):
        make_run(evaluating({"broken": {}})).train()


# ---------------------------------------------------------------- rlcore evaluate


@pytest.fixture
def evaluate(run_rlcore: RunRlcore, old: Path) -> Callable[..., Any]:
    return lambda *words: run_rlcore("evaluate", old, "--episodes", "6", *words)


def test_a_saved_run_plays_the_opponents_of_its_evaluations_or_others_or_none(evaluate: Any, old: Path) -> None:
    data = json.loads(evaluate("--json").stdout)
    assert list(data["opponents"]) == ["random"] and data["opponents"]["random"]["episodes"] == 6
    assert sorted(data["opponents"]["random"]["teams"]) == [0, 0, 0, 1, 1, 1]
    assert data["score"] == data["opponents"]["random"]["mean_reward"]
    result = evaluate("--opponent", "always", "--opponent", f"self={{type: run, path: {old}}}")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Agent: mean reward") and "over 12 episodes" in lines[0]
    assert lines[1].startswith("against always: mean reward ") and lines[1].endswith("of 6 episodes")
    assert lines[2] == "against self: mean reward 0.00 +/- 0.00, won 0.0%, drawn 100.0%, lost 0.0% of 6 episodes"
    (line,) = evaluate("--no-opponents").stdout.splitlines()
    assert line.startswith("Agent: mean reward 0.00") and "over 12 episodes" in line
    assert "give only one of them" in evaluate("--no-opponents", "--opponent", "random").stderr
    result = evaluate("--opponent", "randon")
    assert result.exit_code == 2
    message = "error: --set evaluation.opponents.randon: unknown opponent 'randon'; allowed: always, broken, random, "
    assert result.stderr.startswith(message) and "; did you mean 'random'?" in result.stderr
