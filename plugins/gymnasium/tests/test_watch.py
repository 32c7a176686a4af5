"""``rlcore watch``: the episodes of an evaluation, in a window."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlcore import EnvironmentSpec, Run, main

pygame = pytest.importorskip("pygame", reason="windows need pygame")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run of CartPole with evaluations of their own, which two copies of a shorter environment play."""
    config = {
        "preset": "none",
        "environment": {"type": "gymnasium", "id": "CartPole-v1", "num_envs": 2},
        "evaluation": {"interval": None, "environment": {"options": {"max_episode_steps": 7}, "num_envs": 2}},
        "default_settings": {"trainer_type": "ppo", "max_steps": 8},
        "checkpoint_settings": {"run_id": "pole"},
        "stats": {"console": False},
    }
    monkeypatch.chdir(tmp_path)
    with Run(config) as made:
        made.train()
    return "pole"


def test_the_window_shows_the_episodes_of_an_evaluation(
    run: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")  # a window of pygame that needs no display
    pictures = []
    flip = pygame.display.flip
    monkeypatch.setattr("pygame.display.flip", lambda: (pictures.append(pygame.display.get_window_size()), flip()))
    assert main(["watch", run, "--episodes", "2", "--seed", "5"]) == 0
    shown = capsys.readouterr().out
    assert len(pictures) >= 14 and set(pictures) == {(600, 400)}
    assert (
        main(
            ["evaluate", run, "--episodes", "2", "--seed", "5", "--set", "evaluation.environment.num_envs=1", "--json"]
        )
        == 0
    )
    mean = json.loads(capsys.readouterr().out)["behaviors"]["CartPole"]["mean_reward"]
    assert shown == f"CartPole: mean reward {mean:.2f} of 2 episodes\n"


def test_without_a_display_the_message_says_how_to_film(
    run: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert main(["watch", run]) == 3
    said = "there is no display to open a window on (DISPLAY is not set); rlcore evaluate pole --video DIR films"
    assert capsys.readouterr().err.startswith(f"error: {said}")
    # The variable names a display that is not there.
    monkeypatch.setenv("DISPLAY", ":417")
    monkeypatch.setenv("SDL_VIDEODRIVER", "x11")
    pygame.display.quit()
    assert main(["watch", run]) == 3
    assert "; rlcore evaluate pole --video DIR films the episodes, which needs no window" in capsys.readouterr().err


def test_an_environment_that_has_no_window_is_named(
    run: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = EnvironmentSpec(name="acme", target="acme.world:make")
    monkeypatch.setattr("rlcore_gymnasium.watch.environment_of", lambda saved: spec)
    assert main(["watch", run]) == 2
    assert "error: environments of type 'acme' cannot be shown in a window\n" in capsys.readouterr().err
