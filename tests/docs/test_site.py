"""The site's drawings: cited figures, returns, and the gallery of trained agents."""

from __future__ import annotations

import json
import re
import subprocess
from datetime import date
from pathlib import Path
from xml.etree import ElementTree

import drawings
import figures
import films
import gallery
import generate
import imageio.v3 as iio
import numpy as np
import playing
import pytest
from PIL import Image
from PIL import ImageSequence as Seq
from workspace import ROOT

from rlcore import Run
from rlcore.cli.main import main
from rlcore_zoo.entries import entries, entry_of

pytestmark = pytest.mark.documentation

SHOWN = re.compile(r'>([^<>]+)</strong> (\w+) <span class="\w+">(met|missed): target ([^<]+)')


def test_every_cited_figure_has_a_command_that_exists_a_day_and_a_load() -> None:
    found = figures.cited()
    assert len(found) > 10
    for each in found:
        if each.command.startswith("torchrun "):
            assert (ROOT / each.command.split("rlcore run ")[1].split()[0]).is_file()
            continue
        script, *words = each.command.removeprefix("python ").split()
        text = (ROOT / script).read_text("utf-8")
        shared = (ROOT / "benchmarks/off_policy_speed.py").read_text("utf-8") if "_speed" in script else ""
        assert [word for word in words if word.startswith("--") and f'"{word}"' not in text + shared] == []
        assert date.fromisoformat(each.date) <= date.today()
        assert each.load in ("idle", "any") or float(each.load) > 0


def test_the_first_page_has_three_figures_with_command_machine_and_date() -> None:
    page = figures.front(figures.cited())
    assert page.count('class="card"') == 3
    for each in figures.cited():
        if each.front:
            assert all(text in page for text in (each.shown, each.command, each.machine, each.date))


def test_the_page_of_figures_shows_misses(tmp_path: Path) -> None:
    file = tmp_path / "figures.yaml"
    file.write_text(
        "- {machine: M, date: 2026-11-26, load: idle, versions: V, figures: [\n"
        "   {group: Speed, what: one, value: 1.39, unit: x, target: 1.4, command: c},\n"
        "   {group: Speed, what: two, value: 1.4, unit: x, target: 1.4, command: c},\n"
        "   {group: Cost, what: three, value: 301, unit: us, target: 300, smaller: true, command: c}]}\n"
    )
    page = figures.page(figures.cited(file))
    assert re.findall(SHOWN, page) == [
        ("1.39x", "one", "missed", "1.4x"),
        ("1.40x", "two", "met", "1.4x"),
        ("301 us", "three", "missed", "300 us"),
    ]
    assert "Targets met: 1 of 2." in page and "Targets met: 0 of 1." in page


def test_entries_made_from_a_report_are_rounded_for_the_worse() -> None:
    figure = {"what": "PPO", "unit": "x", "against": "", "target": 1.4, "smaller": False, "detail": ""}
    report = {
        "figures": [{**figure, "value": 1.3999}, {**figure, "value": 4.2401, "smaller": True, "unit": "us"}],
        "command": "python benchmarks/ppo_speed.py",
        "python": "3.11.7",
        "machine": "Linux",
        "processor": "P",
        "cpus": 2,
        "load": 3.25,
        "versions": {"torch": "2"},
        "date": "2026-11-26T10:00:00+00:00",
    }
    entry = figures.entry(report)
    assert [each["value"] for each in entry["figures"]] == [1.39, 4.25]
    assert (entry["date"], entry["load"], entry["versions"]) == ("2026-11-26", 3.25, "Python 3.11.7, torch 2")
    assert figures.entry({**report, "load": 0.1})["load"] == "idle"


def test_every_row_of_the_tables_of_returns_is_drawn_and_those_below_the_target_differ() -> None:
    rows = re.findall(
        # Not of the values by default, whose ratios reach 8.
        r"^\| ((?!default-|zoo-)[a-z0-9]+-[a-z0-9-]+(?:, best of \d)?) \|.*\| ([\d.]+) \| [\d.]+ to [\d.]+ \|$",
        (ROOT / "docs/benchmarks.md").read_text("utf-8"),
        re.MULTILINE,
    )
    drawn = ElementTree.fromstring(generate.with_drawings("<!-- returns -->"))
    circles = [each.get("class") for each in drawn.iter("{http://www.w3.org/2000/svg}circle")]
    assert len(rows) > 20
    assert circles == ["below" if float(ratio) < 0.95 else "mean" for _, ratio in rows]


def test_a_curve_leaves_no_value_outside_of_its_axes() -> None:
    found = drawings.Curve([0, 50, 100], [-3.0, None, 7.0], [-4.0, None, 7.0], [-2.0, None, 8.5])
    drawn = drawings.curve(found, "t", "u")
    (line,) = re.findall(r'<polyline class="mean" points="([^"]+)"', drawn)
    points = [tuple(map(float, point.split(","))) for point in line.split()]
    assert [x for x, _ in points] == [drawings.LEFT, drawings.WIDTH - drawings.RIGHT]
    assert all(drawings.TOP <= y <= drawings.HEIGHT - drawings.BOTTOM for _, y in points)
    assert points[0][1] > points[1][1]  # the smaller value is lower on the page
    assert drawings.rounded(-4.0, 8.5) == (-5.0, 10.0, [-5.0, 0.0, 5.0, 10.0])


def test_a_site_without_films_shows_the_film_of_the_repository(tmp_path: Path) -> None:
    assert gallery.shown(tmp_path) == []
    front, page = gallery.front([]), gallery.page([])
    for html, folder in ((front, "."), (page, "gallery")):
        (picture,) = re.findall(r'<img src="([^"]+)"', html)
        assert (ROOT / "docs" / folder / picture).resolve() == gallery.LOOP.resolve()
    (command,) = re.findall(r"python (docs/\S+\.py)", page)
    assert (ROOT / command).is_file()


def test_the_first_page_has_the_policy_that_plays_only_if_it_was_made(tmp_path: Path) -> None:
    page = tmp_path / "play.html"
    assert playing.front(page) == ""
    page.write_bytes(bytes(5_000_000))
    shown = playing.front(page)
    assert 'src="gallery/play.html"' in shown and "5 MB" in shown
    agent = re.search(r"rlcore export zoo:(\S+) --format web", shown)
    assert agent is not None and entry_of(agent[1]).agent is not None


def test_the_film_of_the_repository_moves_and_is_small() -> None:
    assert gallery.LOOP.stat().st_size <= 1_500_000
    with Image.open(gallery.LOOP) as film:
        assert film.n_frames >= 50 and film.width >= 390
        assert film.info["loop"] == 0
    assert entry_of(gallery.LOOP_OF).agent is not None
    tracked = subprocess.run(["git", "ls-files", "*.gif", "*.png", "*.mp4"], cwd=ROOT, capture_output=True, text=True)
    assert set(tracked.stdout.split()) <= {"docs/film.gif"}


def test_a_loop_keeps_the_speed_of_a_film_and_leaves_out_its_beginning(tmp_path: Path) -> None:
    pictures = np.zeros((100, 48, 64, 3), np.uint8)
    pictures[20:] = 255
    iio.imwrite(tmp_path / "film.mp4", pictures, fps=50, plugin="FFMPEG")
    films.write_loop(tmp_path / "film.mp4", tmp_path / "film.gif")
    with Image.open(tmp_path / "film.gif") as film:
        frames = [(np.asarray(frame.convert("L")).mean(), frame.info["duration"]) for frame in Seq.Iterator(film)]
    # 90 pictures of 20 ms; every second one, of which the first five are black.
    assert sum(duration for _, duration in frames) == 90 * 20
    assert sum(duration for mean, duration in frames if mean < 128) == 10 * 20


def test_an_agent_of_the_zoo_becomes_an_entry_without_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery, "SHOWN", tmp_path / "gallery")
    monkeypatch.setattr("sys.argv", ["gallery.py", "--only", "ppo/CartPole-v1"])
    assert "ppo/CartPole-v1" in gallery.agents()
    gallery.main()
    (entry,) = gallery.shown(tmp_path / "gallery")
    measured = entry_of("ppo/CartPole-v1").agent
    assert (entry.title, entry.seeds, entry.scores) == ("CartPole-v1", [measured.seed], [measured.score])
    assert entry.film == 500 and (tmp_path / "gallery/ppo-CartPole-v1/film.mp4").stat().st_size > 1000
    page = gallery.page([entry])
    assert (
        "rlcore watch zoo:ppo/CartPole-v1" in page
        and "100,000 agent steps; the film's episode: 500." in page
        and "\n\n" not in page
    )
    assert 'src="gallery/ppo-CartPole-v1/film.mp4"' in gallery.front([entry])


def test_each_environment_has_one_agent_in_the_gallery() -> None:
    shown = [entry_of(name) for name in gallery.agents()]
    worlds = [entry.data["environment"]["id"] for entry in shown]
    assert len(worlds) == len(set(worlds)) >= 12
    assert [entry.name.replace("/", "-") for entry in shown][: len(gallery.FIRST)] == list(gallery.FIRST)
    others = {entry.name for entry in entries() if entry.agent is None}
    assert not others & {entry.name for entry in shown}


def test_runs_become_one_entry_with_a_film_a_curve_and_the_scores_of_their_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gallery, "SHOWN", tmp_path / "gallery")
    for seed in (1, 2):
        Run(
            {
                "preset": "none",
                "environment": {"type": "gymnasium", "id": "CartPole-v1", "num_envs": 4},
                "behaviors": {"Pole": {"trainer_type": "ppo", "max_steps": 1024, "summary_freq": 512,
                                       "hyperparameters": {"buffer_size": 256, "batch_size": 64}}},
                "env_settings": {"seed": seed},
                "checkpoint_settings": {"run_id": f"pole-{seed}", "results_dir": str(tmp_path)},
                "stats": {"console": False},
            }
        ).train()  # fmt: skip
    gallery.write(gallery.entries_of([tmp_path / "pole-1", tmp_path / "pole-2"]))
    (entry,) = gallery.shown(tmp_path / "gallery")
    assert (entry.name, entry.title, entry.seeds, entry.steps) == ("pole", "CartPole-v1", [1, 2], 1024)
    assert (tmp_path / "gallery/pole/film.mp4").stat().st_size > 1000
    assert entry.film is not None
    for seed, score in zip((1, 2), entry.scores, strict=True):
        capsys.readouterr()
        assert main(["evaluate", str(tmp_path / f"pole-{seed}"), "--episodes", "20", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["behaviors"]["Pole"]["mean_reward"] == score
    summaries = [json.loads(line) for line in (tmp_path / "pole-1/metrics.jsonl").read_text().splitlines()]
    assert entry.curve.steps == [each["step"] for each in summaries]
    page = gallery.page([entry], "gallery/")
    assert 'src="gallery/pole/film.mp4"' in page and "<polyline" in page and "2 seeds" in page
    assert "\n\n" not in page, "an empty line ends HTML in Markdown"
