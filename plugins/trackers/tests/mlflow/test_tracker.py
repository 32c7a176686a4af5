"""MLflow's own client and database: names, configuration, a run that is opened again."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import attrs
import pytest
from tracked_runs import until

pytest.importorskip("mlflow")

from rlcore_trackers import Tracked, TrackedFile, TrackedSummary
from rlcore_trackers.git_state import GitState
from rlcore_trackers.mlflow.settings import MlflowSettings
from rlcore_trackers.mlflow.tracker import MlflowTracker, decoded, encoded


def tracked(run: Path, **settings: object) -> Tracked:
    return Tracked(
        id="0123456789abcdef",
        name="walk",
        directory=run,
        place=run / "trackers/mlflow",
        settings=attrs.asdict(MlflowSettings(**settings)),
        configuration={"behaviors": {"Walker?team=0": {"max_steps": 10}}, "debug": False, "preset": None},
    )


def summary(step: int, reward: float, behavior: str = "Walker") -> TrackedSummary:
    means = {"Environment/Cumulative Reward": reward, "Acme/Größe (m)": 2.0}
    return TrackedSummary(behavior=behavior, step=step, time=1_790_000_000.25, means=means, index=0)


def test_a_run_that_is_opened_again_is_one_run_and_a_step_that_is_sent_again_is_one_step(tmp_path: Path) -> None:
    run = tmp_path / "walk"
    run.mkdir()
    team = "Walker?team=0"
    first = MlflowTracker(tracked(run))
    assert first.sent() == set()
    first.send([summary(100, 1.5), summary(100, -1.0, team)])
    again = MlflowTracker(tracked(run))
    assert again.sent() == {("Walker", 100), (team, 100)}
    again.send([summary(100, 1.5), summary(200, 2.5)])  # as after an answer of a server that was lost
    (run / "checkpoint").mkdir()
    (run / "checkpoint/weights").write_text("weights")
    for _ in range(2):
        again.send_file(TrackedFile(kind="checkpoint", path=run / "checkpoint", step=200))
    again.finish("failed")
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        assert database.execute("SELECT name, status FROM runs").fetchall() == [("walk", "FAILED")]
        rewards = "SELECT step, timestamp, value FROM metrics WHERE key = 'Walker/Environment/Cumulative Reward'"
        assert database.execute(rewards).fetchall() == [(100, 1_790_000_000_250, 1.5), (200, 1_790_000_000_250, 2.5)]
        keys = {key for (key,) in database.execute("SELECT key FROM metrics WHERE value = 2.0")}
        assert keys == {"Walker/Acme/Größe _x28_m_x29_", "Walker_x3f_team_x3d_0/Acme/Größe _x28_m_x29_"}
        assert dict(database.execute("SELECT key, value FROM params")) == {
            "behaviors.Walker_x3f_team_x3d_0.max_steps": "10",
            "debug": "False",
        }
    (weights,) = tmp_path.glob("mlflow-artifacts/*/artifacts/checkpoints/200/weights")
    assert weights.read_text() == "weights"
    (configuration,) = tmp_path.glob("mlflow-artifacts/*/artifacts/configuration.json")
    assert json.loads(configuration.read_text())["debug"] is False


@pytest.mark.parametrize("name", ["Walker", "Walker[2]", "a b.c-d_e", "Läufer", "_x5b_", "_x", "a_x5b_b[", "x_"])
def test_names_are_allowed_in_mlflow_and_come_back(name: str) -> None:
    from mlflow.utils.validation import validate_param_and_metric_name

    assert validate_param_and_metric_name(encoded(name))
    assert decoded(encoded(name)) == name


@pytest.mark.parametrize("informs", [True, False])
def test_a_run_of_a_study_has_tags_deviations_and_system_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, informs: bool
) -> None:
    folder = tmp_path / str(informs)  # since MLflow keeps a connection to the database of each path
    folder.mkdir()
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "1")
    run = attrs.evolve(
        tracked(folder / "walk-seed-3", tags={"rlcore.seed": "mine"}),
        group="walk",
        job_type="seed",
        labels={"seed": "3"},
        git=GitState("0" * 40, dirty=True) if informs else None,
        process=os.getpid() if informs else None,
    )
    first = MlflowTracker(run)
    first.send([attrs.evolve(summary(100, 1.5), stds={"Environment/Cumulative Reward": 0.5})])
    until(lambda: not informs or len(metrics(folder, "system/%")) > 3)
    first.close()  # as after an error
    again = MlflowTracker(attrs.evolve(run, git=GitState("1" * 40, dirty=False) if informs else None))
    until(lambda: not informs or max(step for _, step, _ in metrics(folder, "system/%")) > 0)
    assert again.finish("done") and again.sent() == {("Walker", 100)}
    assert metrics(folder, "%Std") == [("Walker/Environment/Cumulative Reward Std", 100, 0.5)]
    with closing(sqlite3.connect(folder / "mlflow.db")) as database:
        tags = dict(database.execute("SELECT key, value FROM tags WHERE key LIKE 'rlcore%' OR key LIKE '%git%'"))
    code = {"mlflow.source.git.commit": "1" * 40, "mlflow.source.git.dirty": "False"}
    names = {"rlcore.group": "walk", "rlcore.job_type": "seed", "rlcore.seed": "mine", "rlcore.id": run.id}
    assert tags == names | (code if informs else {})
    assert bool(metrics(folder, "system/%")) == informs


def metrics(folder: Path, pattern: str) -> list[tuple[str, int, float]]:
    """Name, step and value of each row whose name fits an SQL pattern."""
    with closing(sqlite3.connect(folder / "mlflow.db")) as database:
        return database.execute("SELECT key, step, value FROM metrics WHERE key LIKE ?", (pattern,)).fetchall()
