"""``rlcore report`` about real runs: PPO with evaluations, self-play and lessons, in files and in a browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from made_once import made_once
from small_runs import data

from rlcore import Run
from rlcore_devkit.fixtures import RunRlcore, run_rlcore

__all__ = ["run_rlcore"]

RUNS = data("reported_runs")
POLE = RUNS["pole"]
LESSONS = RUNS["lessons"]
GAME = RUNS["game"]
PPO = POLE["behaviors"]["Pole"]

Train = Callable[..., Path]


@pytest.fixture
def train(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Train:
    """``train("a", POLE, seed=2)``: a run directory in the ``results`` beside which ``run_rlcore`` starts commands.

    Equal runs are trained once, and copied.
    """

    def make(name: str, config: Any, seed: int = 1, **changes: Any) -> Path:
        off = {"console": False, "tensorboard": False}
        whole = {**config, **changes, "env_settings": {"seed": seed}, "stats": off}

        def run(directory: Path) -> None:
            Run({**whole, "checkpoint_settings": {"run_id": "run", "results_dir": str(directory)}}).train()

        trained = made_once(tmp_path_factory, json.dumps(whole), run) / "run"
        return Path(shutil.copytree(trained, tmp_path / "working" / "results" / name))

    return make


@pytest.fixture
def report(run_rlcore: RunRlcore, tmp_path: Path) -> Callable[..., str]:
    """``report("a", "b")``: the page."""

    def make(*arguments: str) -> str:
        done = run_rlcore("report", *arguments)
        assert done.exit_code == 0 and done.stderr == "", done.stderr
        return (tmp_path / "working" / "report.html").read_text("utf-8")

    return make


def charts(text: str) -> dict[str, Any]:
    """The numbers of each chart of a page by the tag of its statistic."""
    start = text.index('id="data">') + len('id="data">')
    data = {chart["id"]: chart for chart in json.loads(text[start : text.index("</script>", start)])["charts"]}
    tags = {}
    for figure in text.split("<figure>")[1:]:
        element = figure.split('id="')[1].split('"')[0]
        if '<span class="tag">' in figure:
            tags[figure.split('<span class="tag">')[1].split("<")[0]] = data[element]
    return tags


def metrics(place: Path, tag: str) -> dict[int, float]:
    lines = map(json.loads, (place / "metrics.jsonl").read_text().splitlines())
    return {line["step"]: line["stats"][tag] for line in lines if tag in line["stats"]}


def test_seeds_of_two_configurations_are_two_bands_of_what_they_measured(train: Train, report: Any) -> None:
    narrow = {"Pole": {**PPO, "network_settings": {"hidden_units": 8}}}
    wide = [train(f"wide-{seed}", POLE, seed) for seed in (1, 2, 3)]
    for seed in (1, 2):
        train(f"narrow-{seed}", POLE, seed, behaviors=narrow)
    text = report("wide-1", "wide-2", "wide-3", "narrow-1", "narrow-2")
    for tag in ("Environment/Cumulative Reward", "Evaluation/Cumulative Reward"):
        first, second = charts(text)[tag]["groups"]
        assert (len(first["names"]), len(second["names"])) == (3, 2)
        measured = [metrics(place, tag) for place in wide]
        assert first["steps"] == [256, 512, 768] and first["count"] == [3, 3, 3]
        level = first["levels"][0]
        for index, step in enumerate(first["steps"]):
            values = [run[step] for run in measured]
            assert level["mean"][index] == pytest.approx(fmean(values), rel=1e-5)
            assert level["std"][index] == pytest.approx(stdev(values), rel=1e-5)
            assert (level["low"][index], level["high"][index]) == pytest.approx((min(values), max(values)), rel=1e-5)
    assert text.count("5 runs in 2 groups") == 1
    assert "network_settings.hidden_units</th><td>128</td><td>8</td>" in text
    scores = [json.loads((place / "result.json").read_text())["evaluation"]["best_score"] for place in wide]
    assert f'{fmean(scores):,.2f} <span class="quiet">± {stdev(scores):,.2f}</span>' in text


def test_a_single_run_lists_what_differs_from_the_defaults(train: Train, report: Any) -> None:
    train("one", {**POLE, **LESSONS})
    text = report("one")
    rows = text.split('class="key">')[1:]
    found = {row.split("<")[0]: row.split("<td>")[1].split("<")[0] for row in rows}
    assert found.pop("environment_parameters.length.curriculum.lessons").startswith("[{")
    assert found == RUNS["differences"]


def test_lessons_and_ratings_have_curves(train: Train, report: Any) -> None:
    lessons = train("lessons", {**POLE, **LESSONS})
    game = train("game", GAME)
    text = report("lessons", "game")
    lesson = charts(text)["Environment/Lesson Number/length"]
    (only,) = lesson["groups"]
    assert lesson["held"] and dict(zip(only["steps"], only["levels"][2]["mean"], strict=True)) == metrics(
        lessons, "Environment/Lesson Number/length"
    )  # lessons are not smoothed
    (rated,) = charts(text)["Self-play/ELO"]["groups"]
    assert dict(zip(rated["steps"], rated["levels"][0]["mean"], strict=True)) == pytest.approx(
        metrics(game, "Self-play/ELO"), rel=1e-5
    )
    assert "of Pole</span>" in text and "of Player</span>" in text


def test_an_episode_is_filmed_and_embedded(train: Train, report: Any) -> None:
    train("filmed", POLE)
    text = report("filmed", "--episode")
    assert text.count('<video controls muted loop playsinline preload="auto" src="data:video/mp4;base64,') == 1
    assert "best checkpoint" in text


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


# The widths of all charts when the browser lays the paper out: right after the event, whatever Plotly does later.


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
def test_a_browser_draws_every_chart_without_an_error_or_a_refused_request(
    train: Train, report: Any, tmp_path: Path
) -> None:
    train("a-1", POLE, 1)
    train("a-2", POLE, 2)
    text = report("a-1", "a-2")
    shown = tmp_path / "shown.html"
    # Sections that are closed draw their charts when they are opened.
    shown.write_text(text.replace('<details class="charts">', '<details class="charts" open>'), "utf-8")
    flags = ["--headless", "--no-sandbox", "--enable-logging=stderr", "--virtual-time-budget=5000"]
    flags.append(f"--user-data-dir={tmp_path / 'profile'}")
    done = subprocess.run(
        [str(CHROMIUM), *flags, "--dump-dom", shown.as_uri()], capture_output=True, text=True, timeout=120
    )
    # Errors of scripts, and requests that the policy of the page refuses, are lines of the console.
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    assert done.stdout.count('class="js-line"') > 0
    assert done.stdout.count('class="xtitle"') == text.count('class="chart"')


def test_of_many_behaviors_the_first_are_shown_and_the_others_counted(train: Train, run_rlcore: RunRlcore) -> None:
    """Thirty thousand took over a minute."""
    place = train("many", POLE)
    line = json.loads((place / "metrics.jsonl").read_text().splitlines()[0])
    names = [f"B{number:05}" for number in range(500)]
    (place / "metrics.jsonl").write_text("".join(json.dumps(line | {"behavior": name}) + "\n" for name in names))
    done = run_rlcore("report", "many")
    assert done.exit_code == 0 and done.stderr.startswith("warning: 301 more behaviors are left out of the page\n")
    text = place.parent.parent.joinpath("report.html").read_text("utf-8")
    assert "301 more behaviors" in text and "B00199" in text and "B00200" not in text
