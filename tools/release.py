"""Release the distributions of this repository: one version for all, built, checked and installed in one place.

    python tools/release.py version              print the version
    python tools/release.py version 0.2.0        write it, and the bounds on rlcore, wherever they stand
    python tools/release.py build dist           sdists of all members, and wheels built from the sdists
    python tools/release.py check dist           what an index and its users would get
    python tools/release.py smoke dist           install the wheels in a new virtual environment, and train there

``core/src/rlcore/__init__.py`` has the version. Each member repeats it in its ``pyproject.toml``, because its sdist
must build where the others are not. ``version`` writes all places, and ``tests/test_workspace.py`` compares them.
"""

from __future__ import annotations

import argparse
import email
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator, Sequence
from email.message import Message
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
CORE = "core"  # uploaded first: the other distributions need it
PLUGINS = "plugins"
VERSION_FILE = Path("core/src/rlcore/__init__.py")
VERSION = re.compile(r'(?m)^(__version__ = ")([^"]+)(")$')
PROJECT_VERSION = re.compile(r'(?m)^(version = ")([^"]+)(")$')
# A bound on rlcore or on one of its plugins: rlcore[torch]>=0.1,<0.2
BOUND = re.compile(r"(\brlcore(?:-[a-z0-9]+)*(?:\[[a-z0-9,_-]+\])?)>=\d+\.\d+,<\d+\.\d+")
CHANGELOG_HEADING = re.compile(r"(?m)^## (\S+)(.*)$")
# Files whose text shows the bounds to authors of plugins.
SHOWN = ("*.md", "plugins/devkit/src/rlcore_devkit/doctor.py")
TRAINING = """\
environment: {type: gymnasium, id: CartPole-v1, num_envs: 4}
behaviors: {CartPole: {trainer_type: ppo, max_steps: 4096, hyperparameters: {buffer_size: 1024}}}
checkpoint_settings: {run_id: smoke}
"""


class ReleaseError(Exception):
    """Something that must be fixed before a release; the text says where and how."""


# ---------------------------------------------------------------- the members


def members(root: Path) -> list[Path]:
    """Return the directories of all members, the core first."""
    plugins = [
        path.parent for folder in ("builtin_trainers", "plugins") for path in root.glob(f"{folder}/*/pyproject.toml")
    ]
    return [root / "core", *sorted(plugins)]


def project(directory: Path) -> dict[str, Any]:
    """Return the table ``project`` of a pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((directory / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


def version_of(root: Path) -> str:
    """Return the version, which ``core/src/rlcore/__init__.py`` has."""
    found = VERSION.search((root / VERSION_FILE).read_text(encoding="utf-8"))
    if found is None:
        raise ReleaseError(f'{VERSION_FILE}: has no line like __version__ = "0.1.0"')
    return found[2]


# ---------------------------------------------------------------- version


def bounds(version: str) -> str:
    """Return the bounds of a plugin on the rlcore it was made for: minor releases may change interfaces."""
    major, minor = map(int, version.split(".")[:2])
    return f">={major}.{minor},<{major}.{minor + 1}"


def set_version(root: Path, version: str) -> list[Path]:
    """Write the version and the bounds in all places, and head the changelogs with it; return the changed files."""
    if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", version):
        raise ReleaseError(f"{version!r} is not a version such as 0.2.0 or 0.2.0rc1")
    changed = []

    def write(path: Path, text: str) -> None:
        if text != path.read_text(encoding="utf-8"):
            path.write_text(text, encoding="utf-8")
            changed.append(path)

    def bounded(text: str) -> str:
        return BOUND.sub(rf"\g<1>{bounds(version)}", text)

    write(root / VERSION_FILE, VERSION.sub(rf"\g<1>{version}\g<3>", (root / VERSION_FILE).read_text(encoding="utf-8")))
    for directory in [root, *members(root)]:
        path = directory / "pyproject.toml"
        write(path, bounded(PROJECT_VERSION.sub(rf"\g<1>{version}\g<3>", path.read_text(encoding="utf-8"), count=1)))
    shown = [path for pattern in SHOWN for path in root.rglob(pattern) if path.name != "CHANGELOG.md"]
    for path in [*root.glob("examples/*/pyproject.toml"), *shown]:
        if not any(part.startswith(".") for part in path.relative_to(root).parts):
            write(path, bounded(path.read_text(encoding="utf-8")))
    for directory in members(root):
        path = directory / "CHANGELOG.md"
        write(path, with_section(path.read_text(encoding="utf-8"), version))
    return changed


def with_section(changelog: str, version: str) -> str:
    """Return the changelog with a section of this version at the top, unless it has one.

    A section of a version that was never released is renamed: its changes are in the next one.
    """
    headings = list(CHANGELOG_HEADING.finditer(changelog))
    if any(heading[1] == version for heading in headings):
        return changelog
    first = headings[0]
    if "(unreleased)" in first[2]:
        return changelog[: first.start()] + f"## {version} (unreleased)" + changelog[first.end() :]
    return f"{changelog[: first.start()]}## {version} (unreleased)\n\n{changelog[first.start() :]}"


# ---------------------------------------------------------------- build


def build(root: Path, out: Path, only: Sequence[str] = (), isolation: bool = True) -> None:
    """Build an sdist of each member, and its wheel from that sdist, into ``out/core`` and ``out/plugins``."""
    for directory in members(root):
        if only and project(directory)["name"] not in only:
            continue
        target = out / (CORE if directory.name == "core" else PLUGINS)
        if target.exists() and list(target.glob(f"{file_name(directory)}-[0-9]*")):
            raise ReleaseError(f"{target} has files of {file_name(directory)} already; delete them first")
        options = [] if isolation else ["--no-isolation"]
        run([sys.executable, "-m", "build", *options, "--outdir", target, directory])


def file_name(directory: Path) -> str:
    """Return the name of a member as its files have it: ``rlcore_ppo``."""
    return str(project(directory)["name"]).replace("-", "_")


# ---------------------------------------------------------------- check


def check(root: Path, out: Path, only: Sequence[str] = (), tag: str | None = None) -> None:
    """Check everything that would be uploaded. Raises ReleaseError with all problems."""
    version, problems = version_of(root), []
    chosen = [each for each in members(root) if not only or project(each)["name"] in only]
    if tag is not None and tag != f"v{version}":
        problems.append(f"the tag is {tag}, and the version {version}: tag v{version}, or run `version {tag[1:]}`")
    expected = set()
    for directory in chosen:
        folder = out / (CORE if directory.name == "core" else PLUGINS)
        name = file_name(directory)
        wheel, sdist = folder / f"{name}-{version}-py3-none-any.whl", folder / f"{name}-{version}.tar.gz"
        expected |= {wheel, sdist}
        missing = [path for path in (wheel, sdist) if not path.is_file()]
        problems += [f"{path}: missing; run `build` again" for path in missing]
        if not missing:
            problems += [f"{wheel.name}: {each}" for each in wheel_problems(directory, wheel, version)]
            problems += [f"{sdist.name}: {each}" for each in sdist_problems(directory, sdist)]
        if tag is not None:
            headings = CHANGELOG_HEADING.findall((directory / "CHANGELOG.md").read_text(encoding="utf-8"))
            if not any(found == version and "(unreleased)" not in rest for found, rest in headings):
                problems.append(f"{name}: CHANGELOG.md has no section '## {version} (date)'")
    problems += [f"{path}: does not belong to this release" for path in sorted(files(out) - expected)]
    if not problems:
        strict = subprocess.run(
            [sys.executable, "-m", "twine", "check", "--strict", *sorted(expected)],
            capture_output=True,
            text=True,
            check=False,
        )
        if strict.returncode:
            problems.append(strict.stdout + strict.stderr)
    if problems:
        raise ReleaseError("\n".join(problems))


def files(out: Path) -> set[Path]:
    """Return all files below a directory."""
    return {path for path in out.rglob("*") if path.is_file()}


def wheel_problems(directory: Path, wheel: Path, version: str) -> Iterator[str]:
    """Yield what is wrong with the files, the version and the requirements of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (information,) = {name.partition("/")[0] for name in names if ".dist-info/" in name}
        metadata = email.message_from_bytes(archive.read(f"{information}/METADATA"))
    package = directory / "src" / file_name(directory)
    on_disk = {
        path.relative_to(package.parent).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    in_wheel = {name for name in names if not name.startswith(information)}
    yield from (f"lacks {name}" for name in sorted(on_disk - in_wheel))
    yield from (f"has {name}, which is not in the repository" for name in sorted(in_wheel - on_disk))
    for name in (f"{package.name}/py.typed", f"{information}/licenses/LICENSE"):
        if name not in names:
            yield f"lacks {name}"
    yield from metadata_problems(metadata, project(directory), version)


def metadata_problems(metadata: Message, table: dict[str, Any], version: str) -> Iterator[str]:
    """Yield where the metadata of a wheel differs from the version, and where its requirements cannot be published."""
    if metadata["Version"] != version:
        yield f"its version is {metadata['Version']}, not {version}"
    requirements = metadata.get_all("Requires-Dist") or []
    for requirement in requirements:
        if " @ " in requirement or "file:" in requirement:
            yield f"requires {requirement}, which no index has"
        if requirement.startswith("rlcore") and "@" not in requirement:
            name = re.match(r"rlcore(-[a-z]+)*(\[[^\]]*\])?", requirement)
            assert name is not None
            stated = set(re.findall(r"[<>=!~]=?[\d.]+", requirement))
            wanted = set(bounds(version).split(","))
            if stated != wanted and not (table["name"] == "rlcore" and name[2] and not stated):
                yield f"requires {requirement}, whose bounds are not {bounds(version)}"
    is_plugin = table["name"] != "rlcore" and "rlcore" in table.get("entry-points", {})
    if is_plugin and not any(each.startswith("rlcore") for each in requirements):
        yield "does not require rlcore"


def sdist_problems(directory: Path, sdist: Path) -> Iterator[str]:
    """Yield the files that an sdist needs, and lacks."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", f"src/{file_name(directory)}/__init__.py"):
        if name not in names:
            yield f"lacks {name}"


# ---------------------------------------------------------------- smoke


def smoke(root: Path, out: Path, extras: Sequence[str]) -> None:
    """Install the built core with ``extras`` in a new virtual environment; check it, and train there if PPO can.

    What is not built here comes from the index that pip is configured with.
    """
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        venv.create(place / "venv", with_pip=True)
        python = next((place / "venv").glob("[bS]*/python*")).parent / ("python.exe" if os.name == "nt" else "python")
        wanted = (f"rlcore[{','.join(extras)}]" if extras else "rlcore", "rlcore-devkit")  # which has the doctor
        pinned = [f"{name}=={version_of(root)}" for name in wanted]
        links = [f"--find-links={folder.resolve()}" for folder in (out / CORE, out / PLUGINS)]
        constraints = ["-c", root / "constraints.txt"]
        run([python, "-m", "pip", "install", "-q", *constraints, *links, *pinned], cwd=place)
        run([python, "-m", "pip", "check"], cwd=place)
        command = [python, "-m", "rlcore.cli.main"]
        run([*command, "plugins", "doctor"], cwd=place)
        if {"ppo", "gymnasium"} <= set(extras) or "all" in extras:
            (place / "smoke.yaml").write_text(TRAINING, encoding="utf-8")
            run([*command, "run", "smoke.yaml"], cwd=place)
            run([*command, "evaluate", "smoke", "--episodes", "4"], cwd=place)


# ---------------------------------------------------------------- the command


def run(command: Sequence[str | Path], cwd: Path | None = None) -> None:
    """Run a command, without variables that would let this checkout shine through. Raises ReleaseError if it fails."""
    variables = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "RLCORE_"))}
    if subprocess.run(command, cwd=cwd, env=variables, check=False).returncode:
        raise ReleaseError(f"failed: {' '.join(map(str, command))}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="tools/release.py", description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("version", help="print the version, or write it in all places")
    command.add_argument("version", nargs="?")
    for name, text in (
        ("build", "build sdists, and wheels from them"),
        ("check", "check what was built"),
        ("smoke", "install what was built in a new virtual environment"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("out", type=Path)
        if name == "smoke":
            command.add_argument("--extras", default="all", help="extras of rlcore to install, such as ppo,gymnasium")
        else:
            command.add_argument("--only", action="append", default=[], help="a distribution; all by default")
        if name == "build":
            command.add_argument("--no-isolation", action="store_true", help="use the installed hatchling")
        if name == "check":
            command.add_argument("--tag", help="the tag of the release, which must fit the version")
    given = parser.parse_args(arguments)
    try:
        if given.command == "version" and given.version is None:
            print(version_of(ROOT))
        elif given.command == "version":
            for path in set_version(ROOT, given.version):
                print(path.relative_to(ROOT))
        elif given.command == "build":
            build(ROOT, given.out, given.only, not given.no_isolation)
        elif given.command == "check":
            check(ROOT, given.out, given.only, given.tag)
        else:
            smoke(ROOT, given.out, [each for each in given.extras.split(",") if each])
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
