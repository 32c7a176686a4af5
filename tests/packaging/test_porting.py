"""The page "Porting a plugin", followed as written on packages that the first version wrote."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import generate
import pytest
from virtualenvs import build_wheels
from workspace import ROOT

pytestmark = pytest.mark.packaging

PAGE = generate.ported((ROOT / "docs/how-to/porting.md").read_text(encoding="utf-8"))
FIRST = Path(__file__).parent / "contract_1"
NAMES = {"old-trainer": "rlcore-old-trainer", "old-stats": "rlcore-old-stats"}
RUN = """\
environment: {type: gymnasium, id: CartPole-v1, num_envs: 4}
behaviors: {CartPole: {trainer_type: old-trainer, max_steps: 2000, summary_freq: 1000}}
stats: {old-stats: {}}
checkpoint_settings: {run_id: ported}
"""


@pytest.fixture
def installed(tmp_path: Path) -> Callable[[Path], Callable[..., subprocess.CompletedProcess[str]]]:
    """``installed(sources)``: a function that runs ``python -m`` where the wheels of the packages are on the path."""

    def install(sources: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
        wheels, site = tmp_path / "wheels", tmp_path / "site"
        wheels.mkdir()
        build_wheels(wheels, *(sources / name for name in NAMES.values()))
        for wheel in wheels.iterdir():
            zipfile.ZipFile(wheel).extractall(site)
        env = {**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"}
        (tmp_path / "run.yaml").write_text(RUN)

        def run(*words: str, cwd: Path = tmp_path) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [sys.executable, "-m", *words], cwd=cwd, env=env, capture_output=True, text=True, check=False
            )

        return run

    return install


def with_new_names(text: str) -> str:
    """The source of a module after step 2: every import of a name in the first column is one of the second."""
    rows = re.findall(r"^\| (`[^|]*`) \| `(rlcore[\w.]*)` \|$", PAGE, re.MULTILINE)
    moved = {old: new for names, new in rows for old in re.findall(r"`([^`]+)`", names)}
    assert len(moved) > 50

    def replaced(match: re.Match[str]) -> str:
        lines = []
        for name in re.findall(r"\w+", match[3]):
            place = f"{match[2]}.{name}"
            packages = [moved[each] for each in (name, match[2], f"{match[2].rpartition('.')[0]}.*") if each in moved]
            module, _, new = moved.get(place, f"{packages[0]}.{name}" if packages else place).rpartition(".")
            lines.append(f"{match[1]}from {module} import {new}")
        return "\n".join(lines)

    return re.sub(r"^( *)from (rlcore(?!_)[\w.]*) import (.+)$", replaced, text, flags=re.MULTILINE)


def changes() -> list[tuple[str, str]]:
    """The diffs of the page: the text before and after each."""
    found = []
    for indent, block in re.findall(r"^( *)```diff\n(.*?)^ *```$", PAGE, re.MULTILINE | re.DOTALL):
        lines = [line.removeprefix(indent) or " " for line in block.splitlines()]
        before, after = ("".join(f"{line[1:]}\n" for line in lines if line[0] in kept) for kept in (" -", " +"))
        found.append((before, after))
    return found


def test_packages_of_the_first_version_are_refused_before_they_are_imported(installed: Any, tmp_path: Path) -> None:
    python = installed(FIRST)
    for path in (tmp_path / "site").rglob("plugin.py"):
        path.write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\n")
    listed = python("rlcore.cli.main", "plugins", "list")
    for name, package in NAMES.items():
        assert (
            f"plugin '{name}' ({package} 0.1.0): {package} 0.1.0 declares no contract and is written for an earlier "
            "one, this rlcore has contract 3: in settings.py, rlcore.config.setting was renamed to "
            "rlcore.setting in contract 3; the page 'Porting a plugin' has the steps\n"
        ) in listed.stderr
        assert re.search(rf"^{name} +{package} 0.1.0 +refused ", listed.stdout, re.MULTILINE)
    asked = python("rlcore.cli.main", "run", "run.yaml", "-p", "old-trainer")
    assert asked.returncode == 4 and asked.stderr.startswith("error: plugin 'old-trainer'")
    assert python("rlcore.cli.main", "plugins", "doctor", "old-stats").returncode == 1
    assert not (tmp_path / "imported").exists() and not (tmp_path / "results").exists()


def test_the_page_followed_as_written_makes_them_pass_and_run(installed: Any, tmp_path: Path) -> None:
    sources = shutil.copytree(FIRST, tmp_path / "sources")
    used = set()
    for path in [*sources.rglob("*.py"), *sources.rglob("pyproject.toml")]:
        text = path.read_text(encoding="utf-8")
        for before, after in changes():
            if before in text:
                text = text.replace(before, after)
                used.add(before)
        path.write_text(with_new_names(text), encoding="utf-8")
    assert len(changes()) == len(used) >= 9, "a change of the page applies to no file"
    python = installed(sources)
    doctor = python("rlcore.cli.main", "plugins", "doctor")
    assert all(f"{package}/{name}: ok\n" in doctor.stdout for name, package in NAMES.items()), doctor.stdout
    ran = python("rlcore.cli.main", "run", "run.yaml", "--strict-plugins")
    assert ran.returncode == 0, ran.stderr
    rows = (tmp_path / "results/ported/old-stats.csv").read_text(encoding="utf-8").splitlines()
    assert {row.split(",")[1] for row in rows} == {"1000", "2000"}
    for name in NAMES.values():
        tested = python("pytest", "-q", "-p", "no:cacheprovider", "tests", cwd=sources / name)
        assert tested.returncode == 0, tested.stdout
