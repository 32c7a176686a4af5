"""tools/plugin_matrix.py: a public name that is renamed is found in packages that use it, before their users do."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import plugin_matrix
import pytest
from plugin_matrix import Row
from plugin_trials import NAMES, MatrixError, Trial, published
from workspace import ROOT

PROJECT = """\
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "acme-{name}"
version = "0.1.0"
keywords = ["rlcore-plugin-contract-{contract}"]
dependencies = ["{needs}"]

[project.entry-points.rlcore]
acme-{name} = "acme_{name}"
"""
PLUGIN = "from rlcore import hookimpl\n\n\n@hookimpl\ndef rlcore_run_started(run):\n    pass\n"
TEST = "import rlcore\n\n\ndef test_it():\n    assert callable(rlcore.{used})\n"
OLD, NEW = "first_non_finite", "first_not_finite"  # a public name of rlcore, and what the commit calls it
WORKS = Trial("passed", "1 passed")
FAILS = Trial("failed", "1 of 1 failed", "test_it: it is gone")
REFUSED = Trial("refused", "refused: another contract")


def git(root: Path, *words: str) -> None:
    name = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com")
    subprocess.run(["git", *name, *words], cwd=root, check=True, capture_output=True)


def commit(root: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "One more")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """An empty repository."""
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    return root


def write_names(root: Path, names: str) -> None:
    (root / NAMES).parent.mkdir(parents=True, exist_ok=True)
    (root / NAMES).write_text(names)


# ---------------------------------------------------------------- the published commit


def test_without_a_tag_the_last_commit_with_other_public_names_is_published(repository: Path) -> None:
    commits = []
    for names, other in (("a", "1"), ("a", "2"), ("b", "3"), ("b", "4")):
        write_names(repository, names)
        (repository / "other").write_text(other)
        commit(repository)
        commits.append(subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=repository, text=True).strip())
    assert commits[1].startswith(published(repository, "HEAD"))
    with pytest.raises(MatrixError, match="name one with --last"):
        published(repository, commits[1])
    git(repository, "tag", "v0.1.0", commits[0])
    git(repository, "tag", "v0.2.0", commits[3])  # the tag of the commit itself is not what it is compared with
    assert published(repository, "HEAD") == "v0.1.0"


# ---------------------------------------------------------------- verdicts

VERDICTS = [
    (WORKS, WORKS, "works with both", False),
    (FAILS, WORKS, "needs this commit", False),
    (WORKS, FAILS, "broken by this commit", True),
    (FAILS, FAILS, "fails with both", True),
    (WORKS, REFUSED, "refused with the reason", False),
]


@pytest.mark.parametrize(("with_last", "with_this", "verdict", "bad"), VERDICTS)
def test_a_package_is_bad_if_it_fails_with_this_commit(
    with_last: Trial, with_this: Trial, verdict: str, bad: bool
) -> None:
    row = Row("acme", "both", with_last, with_this)
    assert (row.verdict, row.is_bad) == (verdict, bad)


def test_a_superseded_package_that_failed_before_is_no_fault_of_this_commit() -> None:
    assert not Row("acme", "older", FAILS, FAILS, superseded=True).is_bad
    assert Row("acme", "older", WORKS, FAILS, superseded=True).is_bad


# ---------------------------------------------------------------- a renamed name


def write_package(root: Path, name: str, used: str, contract: int = 1, needs: str = "rlcore") -> None:
    package = root / "examples" / name
    for file, text in (
        ("pyproject.toml", PROJECT.format(name=name, contract=contract, needs=needs)),
        (f"src/acme_{name}/__init__.py", PLUGIN),
        ("tests/test_it.py", TEST.format(used=used)),
    ):
        (package / file).parent.mkdir(parents=True, exist_ok=True)
        (package / file).write_text(text)


def rename(directory: Path, change: Callable[[str], str]) -> int:
    """Change the text of all Python files, and return how many differ."""
    count = 0
    for path in (*directory.rglob("*.py"), *directory.rglob("*.pyi")):
        text = path.read_text(encoding="utf-8")
        if change(text) != text:
            path.write_text(change(text), encoding="utf-8")
            count += 1
    return count


@pytest.mark.packaging
@pytest.mark.long
def test_a_renamed_public_name_is_caught_in_a_package_that_uses_it(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for member in ("core", "plugins/devkit"):
        shutil.copytree(ROOT / member, repository / member, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.rmtree(repository / member / "tests")
    write_names(repository, (ROOT / NAMES).read_text(encoding="utf-8"))
    (repository / "tools").mkdir()
    packages = ("uses", "other", "follows", "contract", "bounds")
    listed = "".join(f"- package: examples/{name}\n" for name in packages)
    (repository / plugin_matrix.LISTED).write_text(listed)
    write_package(repository, "uses", OLD)
    write_package(repository, "other", "load_plugins")
    write_package(repository, "follows", OLD)
    write_package(repository, "contract", "load_plugins", contract=99)
    write_package(repository, "bounds", "load_plugins", needs="rlcore>=99")
    commit(repository)
    # The developer follows the new name in one example.
    assert rename(repository, lambda text: re.sub(rf"\b{OLD}\b", NEW, text)) > 2
    write_package(repository, "uses", OLD)
    names = (repository / NAMES).read_text(encoding="utf-8")
    write_names(repository, names.replace(f"rlcore.{OLD}(", f"rlcore.{NEW}("))
    commit(repository)

    page = tmp_path / "matrix.md"
    chosen = [f"examples/{name}" for name in packages]
    assert plugin_matrix.main([*chosen, "--page", str(page), "--jobs", "2"], repository) == 1
    text = page.read_text()
    assert text == capsys.readouterr().out
    rows = [[cell.strip(" *`") for cell in line.split("|")[1:-1]] for line in text.splitlines() if "examples/" in line]
    verdicts = [(row[0].removeprefix("examples/"), row[1] == "both", row[-1]) for row in rows if len(row) == 5]
    assert verdicts == [
        ("uses", True, "broken by this commit"),
        ("other", True, "works with both"),
        ("follows", False, "broken by this commit"),
        ("follows", False, "needs this commit"),
        ("contract", True, "refused with the reason"),
        ("bounds", True, "refused with the reason"),
    ]
    assert text.count(f"test_it: AttributeError: No rlcore attribute {OLD}\n") == 2
    assert f"- rlcore.{OLD}(" in text and f"+ rlcore.{NEW}(" in text
