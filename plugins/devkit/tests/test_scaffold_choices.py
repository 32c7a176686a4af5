"""Names, kinds, license, authors and pages of a new plugin. A refusal writes nothing."""

from __future__ import annotations

import ast
import datetime
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from rlcore import CONTRACT, ConfigError
from rlcore_devkit.fixtures import InstallPlugin, RunRlcore
from rlcore_devkit.scaffold import writing
from rlcore_devkit.scaffold.about import LICENSES, About, new_about
from rlcore_devkit.scaffold.kinds import KINDS
from rlcore_devkit.scaffold.names import new_package
from rlcore_devkit.scaffold.writing import write_plugin


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


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("walker", None, ("walker", "rlcore-walker", "rlcore_walker")),
        ("rlcore-walker", None, ("walker", "rlcore-walker", "rlcore_walker")),
        (None, "rlcore-walker", ("walker", "rlcore-walker", "rlcore_walker")),
        (None, "acme-rl-walker", ("acme-walker", "acme-rl-walker", "acme_rl_walker")),
        (None, "acme-robots-rl-walker-rl", ("acme-robots-walker-rl", "acme-robots-rl-walker-rl", None)),
        (None, "acme-status", ("acme-status", "acme-status", "acme_status")),
        ("walker", "acme-rl-walker", ("walker", "acme-rl-walker", "acme_rl_walker")),
        (None, "Acme_RL.Walker", ("acme-walker", "acme-rl-walker", "acme_rl_walker")),
        (None, "acme--rl__walker", ("acme-walker", "acme-rl-walker", "acme_rl_walker")),
    ],
)
def test_names_derive_from_each_other(name: str | None, given: str | None, expected: tuple[str, str, str]) -> None:
    package = new_package(name, ["reward"], distribution=given)
    assert (package.name, package.distribution) == expected[:2]
    assert package.module == (expected[2] or expected[1].replace("-", "_"))


def test_the_module_may_have_a_name_of_its_own(tmp_path: Path) -> None:
    package = new_package("walker", ["reward"], distribution="acme-rl-walker", module="acme_walking")
    directory = write_plugin(package, tmp_path)
    assert [path.name for path in (directory / "src").iterdir()] == ["acme_walking"]
    project = project_of(directory)
    assert project["name"] == "acme-rl-walker"
    assert project["entry-points"] == {"rlcore": {"walker": "acme_walking.plugin"}}


@pytest.mark.parametrize("name", ["Big", "under_score", "9lives", "", "a--b", "a-", "class"])
def test_names_that_a_plugin_cannot_have_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="is not a plugin name"):
        new_package(name, ["reward"])


REFUSED = {
    "no name": ((None, None, None), "a name is missing; give NAME or --distribution"),
    "plugin too long": (("a" * 31, None, None), "has 31 characters; at most 30 are allowed"),
    "module too long": (("a", "a" * 41, None), "has 41 characters; at most 40 are allowed"),
    "distribution": ((None, "acme rl", None), "'acme rl' is not a name for a distribution: use letters"),
    "distribution's end": ((None, "acme-", None), "is not a name for a distribution"),
    "rlcore itself": (("walker", "rlcore", None), "'rlcore' is a distribution of rlcore's own"),
    "one of rlcore's": ((None, "RLcore_PPO", None), "'rlcore-ppo' is a distribution of rlcore's own"),
    "installed": ((None, "PyYAML", None), "'pyyaml' is installed already, version "),
    "digit": (("walker", "9lives", None), "'9lives' is not a name for a module.*choose another with --module"),
    "keyword": (("walker", "class", None), "'class' is not a name for a module"),
    "standard library": (("walker", "json", None), "'json' is a module that can be imported already"),
    "importable": (("walker", "acme", "yaml"), "'yaml' is a module that can be imported already"),
    "module": (("walker", None, "Acme.Walker"), "'Acme.Walker' is not a name for a module"),
}


@pytest.mark.parametrize(("names", "message"), REFUSED.values(), ids=REFUSED)
def test_other_names_are_refused(names: tuple[str | None, str | None, str | None], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        new_package(names[0], ["reward"], distribution=names[1], module=names[2])


def test_the_name_of_an_installed_plugin_is_refused(installed_plugin: InstallPlugin) -> None:
    installed_plugin("taken", "acme-taken", "1", "")
    with pytest.raises(ConfigError, match="the name of an installed plugin, acme-taken/taken"):
        new_package("taken", ["reward"])


@pytest.mark.parametrize(
    ("name", "kind", "what"),
    [
        ("linear", "schedule", "a schedule"),
        ("adam", "optimizer", "an optimizer"),
        ("uniform", "replay-sampler", "a replay sampler"),
        ("extrinsic", "reward", "a reward"),
        ("console", "stats", "a statistics writer"),
        ("random", "opponent", "an opponent"),
        ("gaussian", "distribution", "a distribution of continuous actions"),
        ("evaluation", "hooks", "a command or a block"),
        ("env-settings", "hooks", "a command or a block"),
        ("status", "hooks", "a command or a block"),
    ],
)
def test_the_name_of_something_that_rlcore_provides_is_refused(
    name: str, kind: str, what: str, run_rlcore: RunRlcore
) -> None:
    refused = run_rlcore("plugins", "new", name, "--kind", kind)
    assert refused.exit_code == 2
    assert f"'{name}' is the name of {what} of rlcore's own; choose another" in refused.stderr
    assert new_package(name, ["curriculum", "sampler"]).name == name  # another kind may have it


# ------------------------------------------------------------ kinds


def test_kinds_that_need_one_module_or_hook_are_refused() -> None:
    for pair in (("trainer", "torch-trainer"), ("torch-trainer", "off-policy-trainer"), ("hooks", "stats")):
        with pytest.raises(ConfigError, match=f"kinds '{pair[0]}' and '{pair[1]}' do not go together: both have "):
            new_package("fresh", pair)


def test_a_kind_that_is_named_twice_counts_once() -> None:
    assert new_package("fresh", ["reward", "reward"]).kinds == ("reward",)


@pytest.mark.parametrize(("kinds", "message"), [([], "a kind is missing"), (["rewrd"], "did you mean 'reward'")])
def test_a_missing_and_an_unknown_kind_are_refused(kinds: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        new_package("fresh", kinds)


# ------------------------------------------------------------ metadata


def words_of(text: str) -> list[str]:
    """The words without the line that names the owner, and without the title."""
    lines = [line for line in text.splitlines() if not re.match(r"\s*Copyright \(?[c©\d]", line, re.IGNORECASE)]
    return " ".join(lines).replace("The MIT License (MIT)", "").replace("MIT License", "").split()


@pytest.mark.parametrize(
    ("license", "package", "file", "title"),
    [
        ("MIT", "attrs", "LICENSE", 0),
        ("BSD-3-Clause", "click", "LICENSE.txt", 3),
        ("Apache-2.0", "packaging", "LICENSE.APACHE", 0),
    ],
)
def test_a_license_has_the_words_that_packages_of_others_have(
    tmp_path: Path, license: str, package: str, file: str, title: int
) -> None:
    directory = written(tmp_path, About(license=license, author="Jo Müller"))
    text = (directory / "LICENSE").read_text(encoding="utf-8")
    theirs = distribution(package).read_text(f"licenses/{file}")
    assert theirs is not None
    assert words_of(text)[title:][: len(words_of(theirs))] == words_of(theirs)
    if license == "Apache-2.0":  # it has an appendix with a notice for source files; packaging leaves it out
        assert text.rstrip().endswith("limitations under the License.")
    else:
        assert f"Copyright (c) {datetime.date.today().year} Jo Müller\n" in text
        assert len(words_of(text)[title:]) == len(words_of(theirs))
    assert project_of(directory)["license"] == license


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


def test_classifiers_are_those_of_the_index(tmp_path: Path) -> None:
    known = pytest.importorskip("trove_classifiers").classifiers
    for license in LICENSES:
        found = project_of(written(tmp_path / license, About(license=license)))["classifiers"]
        assert found == sorted(found) and set(found) - {"Private :: Do Not Upload"} <= known


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


def test_a_description_replaces_that_of_the_template(tmp_path: Path) -> None:
    project = project_of(written(tmp_path, About(description='Walks "far" \\ fast')))
    assert project["description"] == 'Walks "far" \\ fast'
    assert project["keywords"] == ["reinforcement-learning", "rlcore", "rlcore-plugin", f"rlcore-contract-{CONTRACT}"]


DESCRIPTIONS = (
    "Walks",
    "Walks.",
    'Walks "far" \\ fast',
    'Jo\'s "far" walk',
    " ".join(["Walks far and it's fast,"] * 9),
)


@pytest.mark.parametrize("description", DESCRIPTIONS)
def test_a_description_stands_wherever_the_package_says_what_it_is(tmp_path: Path, description: str) -> None:
    directory = written(tmp_path, About(description=description), "off-policy-trainer")
    for file in ("README.md", "AGENTS.md", "CHANGELOG.md"):
        text = (directory / file).read_text(encoding="utf-8")
        assert f"{description.rstrip('.')}.\n" in text and "Q-learning" not in text
    hooks = ast.parse((directory / "src/rlcore_fresh/plugin.py").read_text(encoding="utf-8"))
    records = [node for node in ast.walk(hooks) if isinstance(node, ast.keyword) and node.arg == "summary"]
    assert [ast.literal_eval(record.value) for record in records] == [description]
    if find_spec("ruff"):
        checked = subprocess.run(
            [sys.executable, "-m", "ruff", "format", "--check", "--no-cache", directory], check=False
        )
        assert checked.returncode == 0


def test_several_records_keep_their_summaries(tmp_path: Path) -> None:
    hooks = [
        (written(tmp_path / name, About(description=name), *kinds) / "src/rlcore_fresh/plugin.py").read_text()
        for name, kinds in (("Walks", ("hooks",)), ("", ("hooks",)))
    ]
    assert hooks[0] == hooks[1] and "Walks" not in hooks[0]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "license": ({"license": "Apache"}, "unknown license 'Apache'; allowed: MIT, .*did you mean 'Apache-2.0'"),
    "email": ({"email": "jo at example"}, "'jo at example' is not an email address"),
    "two addresses": ({"email": "a@b, c@d"}, "is not an email address"),
    "author": ({"author": "Jo\nMüller"}, "the author .* has characters that cannot be printed"),
    "description": ({"description": "one\x7f"}, "the description .* cannot be printed"),
    "url": ({"urls": ["example.com"]}, "url 'example.com': must be an address such as https://example.com"),
    "scheme": ({"urls": ["Home=file:///etc"]}, "must be an address"),
    "brackets": ({"urls": ["https://[1"]}, "must be an address"),
    "label": ({"urls": [f"{'a' * 33}=https://example.com"]}, "a label has 1 to 32 characters"),
}


@pytest.mark.parametrize(("options", "message"), WRONG.values(), ids=WRONG)
def test_wrong_metadata_is_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        new_about(tmp_path, **options)


# ------------------------------------------------------------ all or nothing


@pytest.mark.parametrize("there", ["directory", "file", "dangling link"])
def test_what_exists_is_left_alone(tmp_path: Path, there: str) -> None:
    place = tmp_path / "rlcore-fresh"
    {"directory": place.mkdir, "file": place.touch, "dangling link": lambda: place.symlink_to("missing")}[there]()
    with pytest.raises(ConfigError, match="exists; choose another name"):
        written(tmp_path)
    assert list(tmp_path.glob("*fresh*")) == [place] and not (place.is_dir() and list(place.iterdir()))


def test_an_error_while_writing_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent, write, written_files = tmp_path / "plugins", Path.write_text, []

    def full(path: Path, *arguments: Any, **options: Any) -> int:
        written_files.append(path)
        if len(written_files) == 5:
            raise OSError(28, "No space left on device")
        return write(path, *arguments, **options)

    monkeypatch.setattr(writing.Path, "write_text", full)
    with pytest.raises(OSError, match="No space"):
        written(parent)
    assert len(written_files) == 5 and list(parent.iterdir()) == []


def test_a_refused_command_writes_nothing(run_rlcore: RunRlcore, tmp_path: Path) -> None:
    for words in (["--kind", "tranier"], ["--kind", "reward", "--license", "GPL"], ["--kind", "reward", "--url", "x"]):
        refused = run_rlcore("plugins", "new", "fresh", *words, "--dir", tmp_path / "plugins")
        assert refused.exit_code == 2 and refused.stderr.startswith("error: ")
    assert not (tmp_path / "plugins").exists()


# ------------------------------------------------------------ the command


def test_the_command_says_what_to_do_next(run_rlcore: RunRlcore, tmp_path: Path) -> None:
    result = run_rlcore("plugins", "new", "rlcore-fresh", "--kind", "reward", "--dir", tmp_path)
    assert result.exit_code == 0
    assert f"wrote {tmp_path / 'rlcore-fresh'}: plugin fresh, module rlcore_fresh, license MIT" in result.stdout
    assert f"cd {tmp_path / 'rlcore-fresh'}" in result.stdout
    assert "rlcore run example.yaml" in result.stdout
    assert "needs rlcore-gymnasium and rlcore-ppo" in result.stdout
    assert "pip install -e '.[dev]'" in result.stdout  # as in README.md and AGENTS.md


def test_the_command_writes_a_package_of_several_kinds_for_a_company(run_rlcore: RunRlcore, tmp_path: Path) -> None:
    names = ["--distribution", "Acme_RL.Walker", "--license", "Proprietary", "--author", "Acme"]
    pages = ["--email", "rl@acme.example", "--url", "https://acme.example/rl"]
    result = run_rlcore("plugins", "new", "--kind", "trainer", "--kind", "env", *names, *pages)
    assert result.exit_code == 0, result.stderr
    assert "plugin acme-walker, module acme_rl_walker, license proprietary" in result.stdout
    assert "rlcore run examples/trainer.yaml\n  rlcore run examples/env.yaml" in result.stdout
    assert "The examples need rlcore-gymnasium and rlcore-ppo." in result.stdout
    project = project_of(tmp_path / "working/acme-rl-walker")
    assert project["authors"] == [{"name": "Acme", "email": "rl@acme.example"}]
    assert project["urls"] == {"Source": "https://acme.example/rl"}


def test_help_shows_every_kind(run_rlcore: RunRlcore) -> None:
    shown = run_rlcore("plugins", "new", "--help").stdout
    for kind, what in KINDS.items():
        assert f"\n    {kind} " in shown and what.does in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_an_unknown_kind_is_refused_with_the_nearest(run_rlcore: RunRlcore) -> None:
    refused = run_rlcore("plugins", "new", "fresh", "--kind", "tranier")
    assert refused.exit_code == 2
    assert "unknown kind 'tranier'; allowed: trainer, torch-trainer, off-policy-trainer, " in refused.stderr
    assert "did you mean 'trainer'?" in refused.stderr


# ------------------------------------------------------------ advice


@pytest.mark.parametrize("given", [("My Cart", None), (None, "My Cart"), ("my__cart", None), ("-my-cart-", None)])
def test_the_refusal_of_a_name_has_the_nearest_valid_one(given: tuple[str | None, str | None]) -> None:
    with pytest.raises(ConfigError, match=r"; did you mean 'my-cart'\?"):
        new_package(given[0], ["reward"], distribution=given[1])


@pytest.mark.parametrize("name", ["123", "class", "--", "é"])
def test_a_name_without_a_valid_one_near_gets_the_rule_alone(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        new_package(name, ["reward"], distribution="rlcore-fresh")
    assert "use small letters" in str(refused.value) and "did you mean" not in str(refused.value)


def test_the_settings_of_a_block_are_named_after_it() -> None:
    both = new_package("acme", ["hooks", "reward"], distribution="acme-rl")
    assert [both.settings_class(kind) for kind in both.kinds] == ["AcmeBlockSettings", "AcmeRewardSettings"]
    assert [both.settings_module(kind) for kind in both.kinds] == ["block_settings", "reward_settings"]
    alone = new_package("acme", ["hooks"], distribution="acme-rl")
    assert (alone.settings_class("hooks"), alone.settings_module("hooks")) == ("AcmeSettings", "settings")
