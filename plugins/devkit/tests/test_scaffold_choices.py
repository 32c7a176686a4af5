"""Names, kinds, license, authors and pages of a new plugin. A refusal writes nothing."""

from __future__ import annotations

import ast
import datetime
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import ConfigError
from rlcore_devkit.fixtures import InstallPlugin, RunRlcore
from rlcore_devkit.scaffold import writing
from rlcore_devkit.scaffold.about import About, new_about
from rlcore_devkit.scaffold.names import Package, new_package
from rlcore_devkit.scaffold.writing import write_plugin

CASES = yaml.safe_load((Path(__file__).parent / "data/scaffold.yaml").read_text("utf-8"))


@pytest.fixture(autouse=True)
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only configuration of git that counts: no author yet."""
    config = tmp_path / "gitconfig"
    config.touch()
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return config


def project_of(directory: Path) -> dict[str, Any]:
    return dict(tomllib.loads((directory / "pyproject.toml").read_text(encoding="utf-8"))["project"])


def written(parent: Path, about: About | None = None, *kinds: str) -> Path:
    return write_plugin(new_package("fresh", kinds or ("reward",)), parent, about)


# ------------------------------------------------------------ names


def made(given: dict[str, Any]) -> Package:
    names = {key: given.get(key) for key in ("distribution", "module")}
    return new_package(given.get("name"), given.get("kinds", ["reward"]), **names)


@pytest.mark.parametrize("case", CASES["derived"], ids=str)
def test_names_derive_from_each_other(case: dict[str, Any], tmp_path: Path) -> None:
    package = made(case["given"])
    assert [package.name, package.distribution, package.module] == case["made"]
    directory = write_plugin(package, tmp_path)
    assert [path.name for path in (directory / "src").iterdir()] == [package.module]
    project = project_of(directory)
    assert project["name"] == package.distribution
    assert project["entry-points"] == {"rlcore": {package.name: f"{package.module}.plugin"}}


@pytest.mark.parametrize("case", CASES["refused"].values(), ids=CASES["refused"])
def test_other_names_and_kinds_are_refused(case: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=case["error"]):
        made(case["given"])


@pytest.mark.parametrize("case", CASES["classes"], ids=str)
def test_the_name_of_a_class_says_nothing_twice(case: dict[str, str]) -> None:
    assert new_package(case["name"], [case["kind"]]).class_name(case["kind"]) == case["class"]


def test_the_name_of_an_installed_plugin_is_refused(installed_plugin: InstallPlugin) -> None:
    installed_plugin("taken", "acme-taken", "1", "")
    with pytest.raises(ConfigError, match="the name of an installed plugin, acme-taken/taken"):
        new_package("taken", ["reward"])


@pytest.mark.parametrize("kind", CASES["taken"])
def test_the_name_of_something_that_rlcore_provides_is_refused(kind: str, run_rlcore: RunRlcore) -> None:
    name = CASES["taken"][kind]["name"]
    noun = CASES["taken"][kind]["noun"]
    refused = run_rlcore("plugins", "new", name, "--kind", kind)
    assert refused.exit_code == 2
    assert f"'{name}' is the name of {noun} of rlcore's own; choose another" in refused.stderr
    assert new_package(name, ["curriculum", "sampler"]).name == name  # another kind may have it


# ------------------------------------------------------------ kinds


# ------------------------------------------------------------ metadata


@pytest.mark.parametrize(
    ("license", "words"), [("MIT", "MIT License"), ("BSD-3-Clause", "Redistribution"), ("Apache-2.0", "Apache License")]
)
def test_a_package_has_the_license_it_names(tmp_path: Path, license: str, words: str) -> None:
    directory = written(tmp_path, About(license=license, author="Jo Müller"))
    text = (directory / "LICENSE").read_text(encoding="utf-8")
    assert words in text and project_of(directory)["license"] == license
    assert license == "Apache-2.0" or f"Copyright (c) {datetime.date.today().year} Jo Müller\n" in text


def test_a_proprietary_package_is_kept_off_public_indexes(tmp_path: Path) -> None:
    directory = written(tmp_path, About(license="proprietary"))
    project = project_of(directory)
    assert project["license"] == "LicenseRef-Proprietary" and "Private :: Do Not Upload" in project["classifiers"]
    assert "All rights reserved" in (directory / "LICENSE").read_text()
    assert "the authors of rlcore-fresh" in (directory / "LICENSE").read_text()
    assert "--repository-url" in (directory / "README.md").read_text()


def test_without_a_license_the_readme_asks_for_one(tmp_path: Path) -> None:
    directory = written(tmp_path, About(license="none"))
    assert not (directory / "LICENSE").exists() and "license" not in project_of(directory)
    assert "choose a license" in (directory / "README.md").read_text()


def test_git_knows_the_author_unless_options_do(tmp_path: Path, git: Path) -> None:
    assert "authors" not in project_of(written(tmp_path / "unknown", new_about(tmp_path)))
    git.write_text('[user]\n\tname = Jo \\"Q\\" Müller\n\temail = jo@example.com\n', encoding="utf-8")
    about = new_about(tmp_path / "not" / "there")
    assert (about.author, about.email) == ('Jo "Q" Müller', "jo@example.com")
    directory = written(tmp_path / "git", about)
    assert project_of(directory)["authors"] == [{"name": 'Jo "Q" Müller', "email": "jo@example.com"}]
    assert 'Jo "Q" Müller' in (directory / "LICENSE").read_text(encoding="utf-8")
    given = new_about(tmp_path, author="Acme", email="")
    assert project_of(written(tmp_path / "given", given))["authors"] == [{"name": "Acme"}]


@pytest.mark.parametrize("problem", ["no git", "broken", "address"])
def test_what_git_does_not_know_is_left_out(
    problem: str, tmp_path: Path, git: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if problem == "no git":
        monkeypatch.setenv("PATH", str(tmp_path))
    git.write_text("[user\n" if problem == "broken" else "[user]\n\temail = jo at example\n")
    assert new_about(tmp_path) == About()


def test_pages_have_labels(tmp_path: Path) -> None:
    about = new_about(tmp_path, urls=["https://example.com/walker?a=b", "Bug tracker = https://example.com/bugs"])
    assert project_of(written(tmp_path, about))["urls"] == {
        "Source": "https://example.com/walker?a=b",
        "Bug tracker": "https://example.com/bugs",
    }


@pytest.mark.parametrize("description", ["Walks.", 'Jo\'s "far" \\ walk', " ".join(["Walks far and it's fast,"] * 9)])
def test_a_description_stands_wherever_the_package_says_what_it_is(tmp_path: Path, description: str) -> None:
    directory = written(tmp_path, About(description=description), "off-policy-trainer")
    for file in ("README.md", "AGENTS.md", "CHANGELOG.md"):
        text = (directory / file).read_text(encoding="utf-8")
        assert f"{description.rstrip('.')}.\n" in text and "Q-learning" not in text
    hooks = ast.parse((directory / "src/rlcore_fresh/plugin.py").read_text(encoding="utf-8"))
    records = [node for node in ast.walk(hooks) if isinstance(node, ast.keyword) and node.arg == "summary"]
    assert [ast.literal_eval(record.value) for record in records] == [description]


@pytest.mark.parametrize("case", CASES["wrong metadata"].values(), ids=CASES["wrong metadata"])
def test_wrong_metadata_is_refused(tmp_path: Path, case: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=case["error"]):
        new_about(tmp_path, **case["given"])


# ------------------------------------------------------------ all or nothing


@pytest.mark.parametrize("there", ["directory", "file", "dangling link"])
def test_what_exists_is_left_alone(tmp_path: Path, there: str) -> None:
    place = tmp_path / "rlcore-fresh"
    {"directory": place.mkdir, "file": place.touch, "dangling link": lambda: place.symlink_to("missing")}[there]()
    with pytest.raises(ConfigError, match="exists; choose another name"):
        written(tmp_path)
    assert list(tmp_path.glob("*fresh*")) == [place] and not (place.is_dir() and list(place.iterdir()))


def test_an_error_while_writing_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = tmp_path / "plugins"
    write = Path.write_text
    written_files = []

    def full(path: Path, *arguments: Any, **options: Any) -> int:
        written_files.append(path)
        if len(written_files) == 5:
            raise OSError(28, "No space left on device")
        return write(path, *arguments, **options)

    monkeypatch.setattr(writing.Path, "write_text", full)
    with pytest.raises(OSError, match="No space"):
        written(parent)
    assert len(written_files) == 5 and list(parent.iterdir()) == []


# ------------------------------------------------------------ the command


def test_the_command_says_what_to_do_next(run_rlcore: RunRlcore, tmp_path: Path) -> None:
    result = run_rlcore("plugins", "new", "rlcore-fresh", "--kind", "reward", "--dir", tmp_path)
    assert result.exit_code == 0
    assert f"wrote {tmp_path / 'rlcore-fresh'}: plugin fresh, module rlcore_fresh, license MIT" in result.stdout
    assert f"cd {tmp_path / 'rlcore-fresh'}" in result.stdout
    assert "rlcore run example.yaml" in result.stdout
    assert "needs rlcore-gymnasium and rlcore-ppo" in result.stdout
    assert "pip install -e '.[dev]'" in result.stdout  # as in README.md and AGENTS.md


# ------------------------------------------------------------ advice
