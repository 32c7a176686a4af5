"""The private package of a company, installed from the index of the company: it runs, and is selected and blocked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from virtualenvs import Venv, build_wheels
from workspace import ROOT

pytestmark = [pytest.mark.packaging, pytest.mark.xdist_group("company plugin")]

EXAMPLE = ROOT / "examples/company_plugin"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *values: object) -> None:
        pass


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an index with the wheel of the company."""
    directory = tmp_path_factory.mktemp("index")
    copied = shutil.copytree(EXAMPLE, tmp_path_factory.mktemp("source") / "company_plugin")
    (directory / "acme-rl").mkdir()
    build_wheels(directory / "acme-rl", copied)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(directory))) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def company(
    tmp_path_factory: pytest.TempPathFactory,
    shared_venv: Callable[..., Venv],
    wheels: Mapping[str, Path],
    with_torch: Venv,
    index: str,
) -> Venv:
    """The core with PyTorch, three plugins, and the package of the company by its name in the index."""
    members = [wheels[name] for name in ("rlcore-curriculum", "rlcore-gymnasium", "rlcore-ppo")]
    venv = Venv.make(tmp_path_factory.mktemp("company"), below=shared_venv(*members, below=with_torch))
    venv.install("--index-url", index, "--no-deps", "acme-rl")
    return venv


def test_a_run_of_the_company_is_refused_trained_copied_and_listed(company: Venv, tmp_path: Path) -> None:
    example = EXAMPLE / "cartpole.yaml"
    refused = company.rlcore("run", example, cwd=tmp_path, code=2)
    assert "acme.owner: missing; say who answers for the run" in refused.stderr
    company.rlcore("run", example, "--acme-owner", "ann@acme.example", "--seed", "1", cwd=tmp_path)
    assert not list(tmp_path.rglob("training_status.json"))
    shown = company.rlcore("status", "cartpole-acme", cwd=tmp_path).stdout
    assert "2 (short)" in shown and "60000 (100%)" in shown
    copies = {int(path.name) for path in (tmp_path / "copies/cartpole-acme").iterdir()}
    kept = {int(path.name) for path in (tmp_path / "results/cartpole-acme/checkpoints").glob("[0-9]*")}
    assert max(kept) == 60_000 == max(copies) and len(kept) >= 2
    listed = company.rlcore("acme", "runs", cwd=tmp_path).stdout
    assert listed.startswith("cartpole-acme: 60000 steps, owner ann@acme.example, started by ")


# ---------------------------------------------------------------- selected and blocked


NO_AUTOLOAD = {"RLCORE_PLUGIN_AUTOLOAD": "0"}
CASES = yaml.safe_load((Path(__file__).parent / "data/selections.yaml").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_plugin_is_selected_and_blocked(case: dict[str, Any], company: Venv, tmp_path: Path) -> None:
    reward = {case["reward"]: {"weights": [0.0, 0.0, 1.0, 0.0]}} if "reward" in case else {}
    config = {
        "environment": {"type": "gymnasium", "id": "CartPole-v1", "num_envs": 2},
        "behaviors": {"Pole": {"trainer_type": "ppo", "reward_signals": {"extrinsic": {}, **reward}}},
        "plugins": case.get("file", {}),
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    words = ("validate", "run.yaml", "--allow-local", *case.get("words", "").split())
    answer = company.rlcore(*words, cwd=tmp_path, env=case.get("env"), code=2 if case["on"] else 0)
    assert ("acme.owner: missing" in answer.stdout) == case["on"], answer.stdout
    says = case.get("says", "")
    assert says in answer.stderr and ("warning" in answer.stderr) == bool(says), answer.stderr


@pytest.mark.parametrize("env", [{}, {"RLCORE_PLUGINS": "no:acme"}, NO_AUTOLOAD], ids=["on", "no", "autoload"])
def test_the_command_and_the_option_are_there_when_the_plugin_is_on(
    env: Mapping[str, str], company: Venv, tmp_path: Path
) -> None:
    listed = json.loads(company.rlcore("plugins", "list", "--json", cwd=tmp_path, env=env).stdout)
    (state,) = [plugin["state"] for plugin in listed["plugins"] if plugin["name"] == "acme"]
    assert state == ("off" if env else "on")
    (tmp_path / "results").mkdir()
    answer = company.rlcore("acme", "runs", cwd=tmp_path, env=env, code=2 if env else 0)
    assert ("no command 'acme'" in answer.stderr) == bool(env)
    answer = company.rlcore("run", "none.yaml", "--acme-owner", "ann", cwd=tmp_path, env=env, code=2)
    assert ("--acme-owner" in answer.stderr) == bool(env)


def test_a_blocked_plugin_leaves_runs_alone_and_a_missing_one_is_an_error(company: Venv, tmp_path: Path) -> None:
    config = {
        "environment": {"type": "gymnasium", "id": "CartPole-v1", "num_envs": 2},
        "behaviors": {"Pole": {"trainer_type": "ppo", "max_steps": 64}},
        "checkpoint_settings": {"run_id": "run"},
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    company.rlcore("run", "run.yaml", "-p", "no:acme", cwd=tmp_path)
    written = {path.name for path in (tmp_path / "results/run/run_logs").iterdir()}
    assert "training_status.json" in written and "status.db" not in written
    missing = company.rlcore("run", "run.yaml", "--force", "-p", "acmee", cwd=tmp_path, code=4)
    assert "plugin 'acmee' (asked for by -p) is not installed" in missing.stderr and "'acme'" in missing.stderr
