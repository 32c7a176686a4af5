"""The private package of a company, installed from the index of the company: it runs, and can be blocked."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

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


def test_a_blocked_plugin_leaves_runs_alone_and_a_missing_one_is_an_error(company: Venv, tmp_path: Path) -> None:
    config = {
        "preset": "none",
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
