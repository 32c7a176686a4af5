"""The page "Porting a plugin", followed as written on a small package of contract 1."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import generate
import pytest
from virtualenvs import build_wheels
from workspace import ROOT

pytestmark = pytest.mark.packaging

PAGE = generate.ported((ROOT / "docs/how-to/porting.md").read_text(encoding="utf-8"))
RUN = """\
environment: {type: gymnasium, id: CartPole-v1, num_envs: 4}
behaviors: {CartPole: {trainer_type: old-trainer, max_steps: 2000, summary_freq: 1000}}
stats: {old-stats: {}}
checkpoint_settings: {run_id: ported}
"""


def with_new_names(text: str) -> str:
    """The source of a module after step 2: every import of a name in the first column is one of the second."""
    rows = re.findall(r"^\| (`[^|]*`) \| `(rlcore[\w.]*)` \|$", PAGE, re.MULTILINE)
    moved = {old: new for names, new in rows for old in re.findall(r"`([^`]+)`", names)}

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


def test_the_page_followed_as_written_makes_a_package_pass_and_run(tmp_path: Path) -> None:
    source, site = shutil.copytree(Path(__file__).parent / "contract_1", tmp_path / "source"), tmp_path / "site"
    unused = changes()
    for path in [*source.rglob("*.py"), *source.rglob("pyproject.toml")]:
        text = path.read_text(encoding="utf-8")
        for before, after in changes():
            if before in text:
                text = text.replace(before, after)
                unused.remove((before, after))
        path.write_text(with_new_names(text), encoding="utf-8")
    assert not unused, "a change of the page applies to no file"
    build_wheels(tmp_path, source)
    [wheel] = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    (tmp_path / "run.yaml").write_text(RUN)

    def python(*words: str) -> str:
        ran = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    assert "rlcore-old/old: ok\n" in python("rlcore", "plugins", "doctor")
    python("rlcore", "run", "run.yaml", "--strict-plugins")
    rows = (tmp_path / "results/ported/old-stats.csv").read_text(encoding="utf-8").splitlines()
    assert {row.split(",")[1] for row in rows} == {"1000", "2000"}
    # It learns nothing, and draws from one stream: the other rules of trainers are not for it.
    python("pytest", "-q", "-p", "no:cacheprovider", "source/tests", "-k", "not TestTrainer or reward or record")
