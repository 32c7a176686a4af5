"""The rules of the company: who must be named, what is refused, and what the command lists."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import read_run
from rlcore_devkit import CommandResult, PluginConformance, RunRlcore

Train = Callable[..., CommandResult]
SHORT = ("--set", "behaviors.Pole.max_steps=256")


class TestPlugin(PluginConformance):
    plugin = "acme-rl/acme"


@pytest.mark.parametrize(
    ("owner", "options"),
    [("", ()), (None, ()), ("ann@acme.example", ("--set", "acme.owner="))],
    ids=["empty", "null", "--set"],
)
def test_a_run_without_an_owner_is_refused_and_the_option_names_one(
    train: Train, place: Path, owner: str | None, options: tuple[str, ...]
) -> None:
    refused = train(*SHORT, *options, acme={"owner": owner})
    assert refused.exit_code == 2
    where = "--set acme.owner" if options else "acme.owner"
    assert options or "run.yaml:" in refused.stderr
    assert f"{where}: missing; say who answers for the run" in refused.stderr
    assert not (place / "results").exists() or not list((place / "results").iterdir())
    assert train(*SHORT, "--acme-owner", "bob@acme.example", acme={"owner": ""}).exit_code == 0
    run = read_run(place / "results/run")
    assert run.configuration["acme"]["owner"] == "bob@acme.example" == run.status["acme"]["owner"]


def test_validate_refuses_what_a_run_refuses(run_rlcore: RunRlcore, config: dict[str, Any], place: Path) -> None:
    del config["acme"]
    (place / "run.yaml").write_text(yaml.safe_dump(config))
    answer = run_rlcore("validate", "run.yaml")
    assert answer.exit_code == 2 and "acme.owner: missing" in answer.stdout


@pytest.mark.parametrize("name", ["acme-centered", "acme-rl/acme-centered"])
def test_a_shaped_reward_with_another_discount_is_refused(name: str, train: Train, config: dict[str, Any]) -> None:
    shaped = {"weights": [0, 0, 1, 0], "gamma": 0.9}
    config["behaviors"]["Pole"]["reward_signals"] = {"extrinsic": {"gamma": 0.99}, name: shaped}
    answer = train()
    assert answer.exit_code == 2
    assert f"run.yaml:15: behaviors.Pole.reward_signals.{name}.gamma: must be 0.99, as in extrinsic" in answer.stderr


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"upload_to": "ftp://acme.example"}, "acme.upload_to: must be an address such as"),
        ({"upload_to": "https://ann:secret@acme.example"}, "must not contain a password; set ACME_TOKEN"),
        ({"upload_seconds": -1}, "acme.upload_seconds: must be at least 0"),
    ],
)
def test_a_bad_setting_is_refused(block: dict[str, Any], message: str, train: Train) -> None:
    answer = train(acme=block)
    assert answer.exit_code == 2 and message in answer.stderr


@pytest.mark.parametrize("wrong", [3, [], "text"])
def test_a_block_of_the_wrong_type_is_the_mistake_of_the_file(
    wrong: Any, run_rlcore: RunRlcore, config: dict[str, Any], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_TOKEN", "t0ken")
    monkeypatch.setenv("ACME_STATS_URL", "http://127.0.0.1:9")
    for name in ("acme", "stats"):
        (place / "run.yaml").write_text(yaml.safe_dump({**config, name: wrong}))
        answer = run_rlcore("run", "run.yaml")
        assert answer.exit_code == 2 and f"{name}: must be" in answer.stderr


def test_the_command_lists_runs_with_owners_and_users(
    train: Train, run_rlcore: RunRlcore, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user, words in (("ann", ()), ("bob", ("--resume",))):
        monkeypatch.setenv("LOGNAME", user)
        assert train(*SHORT[:-1], f"{SHORT[-1][:-3]}{256 if user == 'ann' else 512}", *words).exit_code == 0
    assert train(*SHORT, "--run-id", "plain", "-p", "no:acme", acme={}).exit_code == 2  # the block is in the file
    (place / "results/broken").mkdir()
    (place / "results/broken/configuration.yaml").write_text("behaviors: [")
    listed = run_rlcore("acme", "runs")
    assert listed.exit_code == 0, listed.stderr
    broken, run = listed.stdout.splitlines()
    assert run == "run: 512 steps, owner ann@acme.example, started by ann, bob"
    assert broken.startswith("broken: ")


def test_the_token_is_in_no_file_of_the_run(
    train: Train, server: Any, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_TOKEN", "t0ken")
    monkeypatch.setenv("ACME_STATS_URL", server.url)
    assert train(*SHORT, acme={"upload_to": f"{server.url}/copies"}).exit_code == 0
    assert {authorization for _, _, authorization in server.requests} == {"Bearer t0ken"}
    assert {method for method, _, _ in server.requests} == {"POST", "PUT"}
    files = [path for path in place.rglob("*") if path.is_file()]
    assert len(files) > 5 and not [path for path in files if b"t0ken" in path.read_bytes()]
