"""tools/release.py: one version in all places, and what would be uploaded is checked; real members are built."""

from __future__ import annotations

import re
import shutil
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import release
import workflows
from packaging.requirements import Requirement
from release import ReleaseError
from workspace import MEMBERS, ROOT, pyproject

MEMBER = "rlcore-study"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The files with a version or a bound, and the pages, in another directory."""
    root = tmp_path / "root"
    paths = [ROOT / "pyproject.toml", ROOT / release.VERSION_FILE, *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    paths += [ROOT / "recipe/recipe.yaml"]
    paths += [ROOT / "plugins/devkit/src/rlcore_devkit/doctor.py", *ROOT.glob("examples/*/pyproject.toml")]
    paths += [each.directory / name for each in MEMBERS for name in ("pyproject.toml", "CHANGELOG.md")]
    for path in paths:
        to = root / path.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)
    return root


def contents(root: Path) -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in root.rglob("*") if path.is_file()}


# ---------------------------------------------------------------- one version


@pytest.mark.parametrize(("version", "inside", "outside"), [("3.7.1", "3.7.9", "3.8.0"), ("3.7.0rc1", "3.7.0", "3.8")])
def test_a_version_is_written_in_all_places(copy: Path, version: str, inside: str, outside: str) -> None:
    changed = release.set_version(copy, version)
    assert release.version_of(copy) == version
    for directory in (copy, *release.members(copy)):
        assert pyproject(directory)["project"]["version"] == version
    assert f'\n  version: "{version}"\n' in (copy / "recipe/recipe.yaml").read_text()
    bounded = 0
    for directory in (*release.members(copy), *copy.glob("examples/*")):
        project = pyproject(directory)["project"]
        extras = project.get("optional-dependencies", {}).values()
        for text in (*project["dependencies"], *(each for extra in extras for each in extra)):
            requirement = Requirement(text)
            if requirement.name.startswith("rlcore") and requirement.specifier:
                bounded += 1
                assert requirement.specifier.contains(inside), text
                assert not requirement.specifier.contains(outside), text
    assert bounded > 30
    old = release.bounds(release.version_of(ROOT))
    assert {path.name for path, text in contents(copy).items() if old in text} <= {"CHANGELOG.md"}
    assert all(path.is_relative_to(copy) for path in changed) and release.set_version(copy, version) == []


CHANGELOG = "# Changelog\n\nAbout versions.\n\n## 0.2.0 (unreleased)\n\n- Faster.\n\n## 0.1.0 (2026-01-02)\n\nFirst.\n"
DAY = date(2027, 1, 31)
OLD = ("0.1.0", "(2026-01-02)", "First.")
SECTIONS = {
    "a section that waits for its release": ("0.2.0", DAY, [("0.2.0", "(2027-01-31)", "- Faster."), OLD]),
    "another number than was expected": ("0.3.0", DAY, [("0.3.0", "(2027-01-31)", "- Faster."), OLD]),
    "no day yet": ("0.3.0", None, [("0.3.0", "(unreleased)", "- Faster."), OLD]),
    "a version that was released": ("0.1.0", DAY, [("0.2.0", "(unreleased)", "- Faster."), OLD]),
}


def sections(changelog: str) -> list[tuple[str, str, str]]:
    """The version, the rest of the heading and the text of each section."""
    found = changelog.split("\n## ")[1:]
    return [(*head.split(" ", 1), text.strip()) for head, text in (each.split("\n", 1) for each in found)]


@pytest.mark.parametrize("name", SECTIONS)
def test_a_changelog_gets_the_version_and_the_day(name: str) -> None:
    version, day, expected = SECTIONS[name]
    changed = release.with_section(CHANGELOG, version, day)
    assert sections(changed) == expected and changed.startswith("# Changelog\n\nAbout versions.\n\n## ")
    assert release.with_section(changed, version, day) == changed


def test_a_member_without_changes_says_so() -> None:
    released = release.with_section(CHANGELOG, "0.2.0", DAY)
    following = release.with_section(release.with_section(released, "0.3.0"), "0.3.0", date(2027, 3, 1))
    assert sections(following)[:2] == [("0.3.0", "(2027-03-01)", "No changes."), ("0.2.0", "(2027-01-31)", "- Faster.")]


def test_one_command_makes_all_changelogs_ready_for_a_tag(copy: Path) -> None:
    release.set_version(copy, "3.7.1", DAY)
    for directory in release.members(copy):
        (version, rest, text), *_ = sections((directory / "CHANGELOG.md").read_text(encoding="utf-8"))
        assert (version, rest) == ("3.7.1", "(2027-01-31)") and text


# ---------------------------------------------------------------- what was built


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    release.build(ROOT, out, [MEMBER], isolation=False)
    return out


@pytest.fixture
def dist(built: Path, tmp_path: Path) -> Path:
    """A copy of the sdist and the wheel of one member."""
    shutil.copytree(built, tmp_path / "dist")
    return tmp_path / "dist"


def wheel_of(dist: Path) -> Path:
    (wheel,) = dist.rglob("*.whl")
    return wheel


def changed(wheel: Path, change: Callable[[str, bytes], bytes | None]) -> None:
    """Write the wheel again; ``change(name, content)`` returns what a file has, or None to leave the file out."""
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in files.items():
            kept = change(name, content)
            if kept is not None:
                archive.writestr(name, kept)


def test_a_member_is_built_from_its_sdist_and_passes(dist: Path) -> None:
    release.check(ROOT, dist, [MEMBER])
    with pytest.raises(ReleaseError, match="already; delete them first"):
        release.build(ROOT, dist, [MEMBER], isolation=False)


def replaced(old: str, new: str) -> Callable[[str, bytes], bytes | None]:
    def change(name: str, content: bytes) -> bytes:
        if not name.endswith("METADATA"):
            return content
        assert old in content.decode()
        return content.decode().replace(old, new).encode()

    return change


VERSION = release.version_of(ROOT)
LOW, HIGH = release.bounds(VERSION).split(",")
WRONG: dict[str, tuple[Callable[[str, bytes], bytes | None], str]] = {
    "another version": (replaced(f"Version: {VERSION}", "Version: 0.0.9"), "its version is 0.0.9, not"),
    "other bounds": (replaced(f"rlcore{HIGH},{LOW}", f"rlcore{LOW}"), "whose bounds are not"),
    "a path": (replaced(f"rlcore{HIGH},{LOW}", "rlcore @ file:///core"), "which no index has"),
    "no rlcore": (replaced(f"Requires-Dist: rlcore{HIGH},{LOW}\n", ""), "does not require rlcore"),
    "no license": (lambda name, content: None if name.endswith("/LICENSE") else content, "lacks .*licenses/LICENSE"),
    "no types": (lambda name, content: None if name.endswith("py.typed") else content, "lacks rlcore_study/py.typed"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wheel_that_must_not_be_uploaded_is_named(dist: Path, name: str) -> None:
    change, message = WRONG[name]
    changed(wheel_of(dist), change)
    with pytest.raises(ReleaseError, match=rf"rlcore_study-{VERSION}-py3-none-any\.whl: .*{message}"):
        release.check(ROOT, dist, [MEMBER])


def test_a_tag_fits_the_version_and_changelogs_have_a_date(dist: Path) -> None:
    with pytest.raises(ReleaseError, match=r"the tag is v9\.9\.9, and the version"):
        release.check(ROOT, dist, [MEMBER], "v9.9.9")
    if "(unreleased)" in (ROOT / "plugins/study/CHANGELOG.md").read_text(encoding="utf-8").partition("\n## ")[2]:
        with pytest.raises(ReleaseError, match=r"CHANGELOG\.md has no section"):
            release.check(ROOT, dist, [MEMBER], f"v{VERSION}")


def test_a_local_index_has_the_given_wheels_and_nothing_else(dist: Path) -> None:
    with release.local_index([wheel_of(dist)]) as address:

        def asked(name: str) -> str:
            with urllib.request.urlopen(f"{address}{name}/") as answer:
                return str(answer.read().decode())

        assert f"rlcore_study-{VERSION}-py3-none-any.whl" in asked(MEMBER)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            asked("click")  # it does not send pip elsewhere


def test_the_publishing_step_of_a_workflow_uploads_to_a_local_index(dist: Path, tmp_path: Path) -> None:
    with release.local_index([], uploads=True) as address:
        machine = workflows.Machine(ROOT, tmp_path, index=address.removesuffix("simple/"))
        step = {"uses": "pypa/gh-action-pypi-publish@1", "with": {"packages-dir": "plugins", "skip-existing": "true"}}
        assert workflows.act(machine, step, dist, tmp_path) == "passed on a local index, 2 files"
        with urllib.request.urlopen(f"{address}{MEMBER}/") as answer:
            assert f"rlcore_study-{VERSION}.tar.gz" in answer.read().decode()


def test_a_member_from_another_index_is_not_accepted() -> None:
    here = "http://127.0.0.1:8080/packages/a.whl"
    elsewhere = "https://example.org/a.whl"

    def report(**origins: str) -> list[dict[str, Any]]:
        return [{"metadata": {"name": name}, "download_info": {"url": url}} for name, url in origins.items()]

    installed = report(rlcore=here, click=elsewhere) + report(**{"rlcore-ppo": here})
    assert release.require_local(installed, "http://127.0.0.1:8080/simple/") == 2
    with pytest.raises(ReleaseError, match="rlcore-ppo from https://example"):
        release.require_local(report(**{"rlcore-ppo": elsewhere}), "http://127.0.0.1:8080/simple/")


def test_every_name_that_a_release_uploads_is_reserved_by_the_page() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    reserved = page.partition("\nReserve these names")[2].partition(":\n")[2].partition("\n\n")[0]
    assert re.findall(r"`([\w-]+)`", reserved) == ["rlcore", *sorted(e.name for e in MEMBERS if e.name != "rlcore")]


def test_an_extra_that_rlcore_does_not_have_is_refused(dist: Path) -> None:
    with pytest.raises(ReleaseError, match="rlcore has no extra everything"):
        release.smoke(ROOT, dist, ["standard", "everything"])


@pytest.mark.packaging
def test_all_members_are_built_checked_and_the_core_is_installed(tmp_path: Path) -> None:
    for arguments in (["build", "--no-isolation"], ["check"], ["smoke", "--extras", ""]):
        assert release.main([arguments[0], str(tmp_path / "dist"), *arguments[1:]]) == 0
    assert len([*(tmp_path / "dist").rglob("*.whl")]) == len([*(tmp_path / "dist").rglob("*.tar.gz")]) == len(MEMBERS)
