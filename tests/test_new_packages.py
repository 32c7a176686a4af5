"""The steps that `rlcore plugins new` prints, and the examples that it writes, work in an unchanged new package."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from rlcore_devkit.fixtures import RunRlcore, run_rlcore
from rlcore_devkit.scaffold.kinds import KINDS

pytestmark = pytest.mark.documentation

__all__ = ["run_rlcore"]

# Every kind is here once, besides hooks; the kinds of a row go together.
BESIDES_HOOKS = [
    ("reward", "env", "curriculum", "opponent", "trainer"),
    ("recording", "schedule", "torch-trainer", "exporter", "encoder"),
    ("sampler", "off-policy-trainer", "optimizer", "distribution"),
    ("replay-sampler", "continuous-trainer"),
]
REFUSED = {"stats"}  # both have a writer


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Put a package on the path as pip would, for this test."""

    def install(directory: Path) -> None:
        project = tomllib.loads((directory / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        information = tmp_path / f"site/{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        information.mkdir(parents=True)
        entries = "".join(f"{name} = {value}\n" for name, value in project["entry-points"]["rlcore"].items())
        (information / "entry_points.txt").write_text(f"[rlcore]\n{entries}", encoding="utf-8")
        lines = [f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"]
        lines += [f"Requires-Dist: {each}\n" for each in project["dependencies"]]
        (information / "METADATA").write_text("".join(lines), encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path / "site")
        monkeypatch.syspath_prepend(directory / "src")

    return install


@pytest.mark.parametrize("kinds", BESIDES_HOOKS, ids="-".join)
def test_the_printed_runs_of_a_companys_package_are_valid(
    kinds: tuple[str, ...], run_rlcore: RunRlcore, tmp_path: Path, install: Callable[[Path], None]
) -> None:
    chosen = [word for kind in ("hooks", *kinds) for word in ("--kind", kind)]
    module = f"globex_{kinds[0].replace('-', '_')}"
    made = run_rlcore("plugins", "new", "globex", *chosen, "--module", module, "--dir", tmp_path)
    assert made.exit_code == 0, made.stderr
    directory = tmp_path / "rlcore-globex"
    install(directory)
    printed = [shlex.split(line) for line in made.stdout.splitlines() if line.startswith("  rlcore run ")]
    assert len(printed) == 1 + len(kinds)
    for _, _, example in printed:
        answer = run_rlcore("validate", directory / example)
        assert answer.exit_code == 0, answer.stdout + answer.stderr
        assert yaml.safe_load((directory / example).read_text())["globex"]["owner"] == "vision"
    blocks = re.findall(r"```yaml\n(.*?)```", (directory / "README.md").read_text(), re.DOTALL)
    assert blocks[0] == "globex:\n  owner: vision\n"  # before the use of each kind
    without = tmp_path / "without.yaml"
    config = yaml.safe_load((directory / printed[1][2]).read_text())
    del config["globex"]
    without.write_text(yaml.safe_dump(config))
    refused = run_rlcore("validate", without)
    assert refused.exit_code == 2 and "globex.owner: missing" in refused.stdout


def test_every_kind_that_goes_with_hooks_is_tried() -> None:
    assert sorted([*(kind for kinds in BESIDES_HOOKS for kind in kinds), *REFUSED, "hooks"]) == sorted(KINDS)
