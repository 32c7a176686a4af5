"""Pages in which a policy plays: what is refused, what a page contains, and that a browser plays it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_files import ABOUT

from rlcore import (
    BehaviorSettings,
    BehaviorSpec,
    ConfigError,
    ObservationSpec,
    RunConfig,
    RunContext,
    UnsupportedExport,
)
from rlcore_onnx.settings import WebSettings
from rlcore_onnx.web import runtime
from rlcore_onnx.web.exporter import WebExporter
from rlcore_onnx.web.task import chosen_task
from rlcore_torch import MemorySettings, NetworkSettings
from rlcore_torch.policy.untrained import untrained_policy

ROOT = Path(__file__).parents[3]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
LIMIT = np.array([2.0], np.float32)
BEHAVIORS = {
    "CartPole-v1": BehaviorSpec("Pole", (ObservationSpec("observation", (4,), np.float32),), discrete=(2,)),
    "Pendulum-v1": BehaviorSpec(
        "Pole", (ObservationSpec("observation", (3,), np.float32),), continuous=1, low=-LIMIT, high=LIMIT
    ),
}


def run_of(directory: Path, environment: str | None = None) -> RunContext:
    """The context of `rlcore export`, which has no environment; the file of the run has ``environment``."""
    if environment is not None:
        (directory / "configuration.yaml").write_text(f"environment: {environment}\n")
    config = RunConfig(behaviors={"Pole": BehaviorSettings()})
    return RunContext(config, None, directory, 1, 1, working_directory=directory)  # type: ignore[arg-type]


@pytest.fixture
def stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files with the names of onnxruntime-web's in the working directory, and their checksums."""
    folder = tmp_path / "node_modules/onnxruntime-web/dist"
    folder.mkdir(parents=True)
    for name in runtime.CHECKSUMS:
        (folder / name).write_bytes(name.encode())
    monkeypatch.setattr(runtime, "CHECKSUMS", {name: sha256(name.encode()).hexdigest() for name in runtime.CHECKSUMS})


def exported(directory: Path, name: str, memory: bool = False, **settings: Any) -> tuple[str, str]:
    """The text of the page of an untrained policy, and the report."""
    settings_of_memory = MemorySettings(memory_size=8, sequence_length=4) if memory else None
    network = NetworkSettings(hidden_units=16, num_layers=1, normalize=True, memory=settings_of_memory)
    policy = untrained_policy(BEHAVIORS[name], network, 1)
    exporter = WebExporter(WebSettings(**settings), run_of(directory, f"{{id: {name}}}"))
    path = directory / "page.html"
    report = exporter.export(policy, BEHAVIORS[name], path, ABOUT)
    return path.read_text("utf-8"), report


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ("{id: LunarLander-v3}", "LunarLander-v3; it can show Acrobot-v1, CartPole-v1, MountainCar-v0, Mount"),
        ("{type: unity}", "an environment of type unity"),
        ("{id: CartPole-v1, options: {sutton_barto_reward: true}}", "has environment.options"),
        ("{id: Pendulum-v1, wrappers: [NormalizeReward]}", "has environment.wrappers"),
        (None, "the environment None"),
    ],
)
def test_an_environment_that_no_page_has_is_refused(tmp_path: Path, environment: str | None, said: str) -> None:
    run = run_of(tmp_path, environment)
    with pytest.raises(ConfigError, match=said):
        chosen_task(WebSettings(), run)
    assert chosen_task(WebSettings(environment="CartPole-v1"), run) == "CartPole-v1"


@pytest.mark.usefixtures("stand_ins")
def test_a_behavior_of_another_task_is_refused(tmp_path: Path) -> None:
    exporter = WebExporter(WebSettings(environment="Acrobot-v1"), run_of(tmp_path))
    with pytest.raises(UnsupportedExport, match="are not those of Acrobot-v1"):
        exporter.check(None, BEHAVIORS["CartPole-v1"])  # type: ignore[arg-type]


def test_without_onnxruntime_web_the_error_has_the_command(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"run `npm pack onnxruntime-web@[0-9.]+` in"):
        WebExporter(WebSettings(), run_of(tmp_path, "{id: CartPole-v1}"))


@pytest.mark.usefixtures("stand_ins")
def test_another_file_of_the_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "node_modules/onnxruntime-web/dist" / runtime.MODULE).write_text("alert(1)")
    with pytest.raises(ConfigError, match="is not the file of onnxruntime-web"):
        WebExporter(WebSettings(), run_of(tmp_path, "{id: CartPole-v1}"))


@pytest.mark.usefixtures("stand_ins")
def test_a_page_has_everything_and_names_no_server(tmp_path: Path) -> None:
    text, report = exported(tmp_path, "CartPole-v1")
    assert re.match(r"CartPole-v1, mean return [0-9.]+ of 20 episodes; [0-9.]+ MB; onnxruntime and the", report)
    assert not re.search(r"https?://|\bsrc=|\bhref=", text)
    element = re.search(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert element is not None
    data = json.loads(element[1])
    steps = data["recorded"]
    for before, after in pairwise(steps):
        assert after["state"] == before["next"]
    assert all(step["action"] == int(np.argmax(step["numbers"])) for step in steps)
    assert data["metadata"]["run_id"] == ABOUT.run_id
    assert exported(tmp_path, "CartPole-v1")[0] == text, "of equal policies, equal files"


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium, which opens the pages")
@pytest.mark.skipif(find_spec("playwright") is None, reason="needs playwright, which drives chromium")
@pytest.mark.skipif(
    not (ROOT / runtime.ARCHIVE).exists(), reason=f"needs {runtime.ARCHIVE}, which `{runtime.COMMAND}` writes"
)
@pytest.mark.parametrize(("name", "memory"), [("CartPole-v1", False), ("CartPole-v1", True), ("Pendulum-v1", False)])
def test_a_browser_computes_what_python_computes_and_plays(tmp_path: Path, name: str, memory: bool) -> None:
    text, _ = exported(tmp_path, name, memory, runtime=str(ROOT / runtime.ARCHIVE))
    path = tmp_path / "page.html"
    changed = tmp_path / "changed.html"
    changed.write_text(re.sub(r'"numbers": \[(-?)[0-9.e-]+', r'"numbers": [\g<1>0.77', text, count=1), "utf-8")
    with browser() as chromium:
        page = chromium.new_page()
        requested: list[str] = []
        page.on("request", lambda request: requested.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("#reset:enabled", timeout=60_000)
        for check, limit in (("policy-check", 1e-5), ("task-check", 1e-6)):
            element = page.locator(f"#{check}")
            assert element.get_attribute("class") == "good", element.inner_text()
            assert float(element.get_attribute("data-difference")) <= limit
        page.wait_for_function("parseInt(document.getElementById('step').textContent) >= 3")
        page.click("#pause")
        page.click("#reset")
        assert page.inner_text("#step").startswith("0 ")
        assert {url.partition(":")[0] for url in requested} <= {"file", "blob"}, "nothing comes from a server"
        page.goto(changed.as_uri())  # a recorded number that the policy does not compute is seen
        page.wait_for_selector("#policy-check.bad", timeout=60_000)


@contextmanager
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()
