"""The pages about exports run: files of the run, of the command and from Python are what the policies are."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from pages import RunPage, blocks, run_python_of
from workspace import ROOT

from rlcore import BehaviorSpec, ConfigError, ObservationSpec, load_policies
from rlcore_onnx.runtime import load
from rlcore_onnx.web.runtime import COMMAND

pytestmark = pytest.mark.documentation

PAGE = "docs/how-to/export.md"
ACT = "docs/how-to/act.md"
OWN = "docs/how-to/write-exporter.md"


def shown_files(page: str) -> list[str]:
    (shown,) = (block.text for block in blocks("text") if block.page == page)
    return sorted(shown.split())


def test_the_page_exports_and_acts_with_onnx_files(run_page: RunPage, capsys: pytest.CaptureFixture[str]) -> None:
    directory = run_page("docs/how-to/export.md")
    found = sorted(str(path.relative_to(directory)) for path in (directory / "results").rglob("*.onnx"))
    assert found == shown_files(PAGE)
    (result,) = json.loads((directory / "results/pole/result.json").read_text())["exports"]
    expected = json.loads(next(block.text for block in blocks("json") if block.page == PAGE))
    number = re.compile(r"[\d.]+e-\d+")
    assert number.sub("", result.pop("report")) == number.sub("", expected.pop("report")) and result == expected
    printed = capsys.readouterr().out
    (line,) = (line for line in (ROOT / PAGE).read_text(encoding="utf-8").splitlines() if line.startswith("Pole: "))
    assert number.sub("", line) in number.sub("", printed)
    names = run_python_of(ACT)
    assert re.fullmatch(r"Pole of step 4096: \d+ steps\n\[\[[01]\]\]\n", capsys.readouterr().out)
    assert names["actions"].discrete.shape == (2, 1) and names["memory"].shape == (2, 0)
    assert [load(directory / name).profile for name in ("unity.onnx", "godot.onnx")] == ["unity", "godot"]


def test_the_page_names_the_version_of_onnxruntime_web_that_pages_contain() -> None:
    for page in (PAGE, "plugins/onnx/README.md"):
        assert COMMAND in (ROOT / page).read_text("utf-8")


def test_the_exporter_of_the_page_exports_what_the_policies_are(run_page: RunPage) -> None:
    directory = run_page("docs/how-to/write-exporter.md")
    found = sorted(str(path.relative_to(directory)) for path in (directory / "results").rglob("*.npz"))
    assert found == shown_files(OWN)
    names = run_python_of(OWN)
    policy = load_policies("results/pole")["Pole"]
    for name, step in (("results/pole/Pole", 4096), ("Pole", 4096), ("earlier", 3072), ("from_python", 4096)):
        with np.load(directory / f"{name}.npz") as exported:
            assert exported["step"] == step
            if step == 4096:
                for key, array in policy.state_dict().items():  # type: ignore[attr-defined]
                    np.testing.assert_array_equal(exported[key], array)
    assert (directory / "from_python.npz").stat().st_size < (directory / "Pole.npz").stat().st_size
    exporter = names["ImageExporter"](names["NpzSettings"](), None)
    vector = ObservationSpec("vector", (3,), "float32")
    image = ObservationSpec("image", (8, 8, 3), "uint8")
    exporter.check(policy, BehaviorSpec("Pole", (vector,)))
    with pytest.raises(ConfigError, match=r"^pip install acme-images$"):
        exporter.check(policy, BehaviorSpec("Pole", (vector, image)))
