"""Release the distributions of this repository: one version for all, built, checked and installed in one place.

    python tools/release.py version                        print the version
    python tools/release.py version 0.2.0                  write it, the bounds on rlcore, and headings of changelogs
    python tools/release.py version 0.2.0 --date today     the same, and the date of the release in each changelog
    python tools/release.py build dist                     sdists of all members, and wheels built from the sdists
    python tools/release.py check dist                     what an index and its users would get
    python tools/release.py smoke dist                     install from a local index with the wheels alone, and train
    python tools/release.py smoke dist --extras standard --python python3.13

A member is each directory of ``core``, ``builtin_trainers/*`` and ``plugins/*`` with a ``pyproject.toml``: a new one
needs no entry here. ``core/src/rlcore/__init__.py`` has the version. Each member repeats it in its ``pyproject.toml``,
because its sdist must build where the others are not. ``version`` writes all places, and ``tests/test_workspace.py``
compares them.
"""

from __future__ import annotations

import argparse
import email
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from email.message import Message
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
CORE = "core"  # uploaded first: the other distributions need it
PLUGINS = "plugins"
VERSION_FILE = Path("core/src/rlcore/__init__.py")
VERSION = re.compile(r'(?m)^(__version__ = ")([^"]+)(")$')
PROJECT_VERSION = re.compile(r'(?m)^(version = ")([^"]+)(")$')
RECIPE_VERSION = re.compile(r'(?m)^(  version: ")([^"]+)(")$')
# A bound on rlcore or on one of its plugins: rlcore[torch]>=0.1,<0.2
BOUND = re.compile(r"(\brlcore(?:-[a-z0-9]+)*(?:\[[a-z0-9,_-]+\])?)>=\d+\.\d+,<\d+\.\d+")
CHANGELOG_HEADING = re.compile(r"(?m)^## (\S+)(.*)$")
# Files whose text shows the bounds to authors of plugins.
SHOWN = ("*.md", "plugins/devkit/src/rlcore_devkit/doctor.py")
# Variables that an installation on another machine may need too: the way to an index, and a place for large files.
NETWORK = (
    "PIP_",
    "SSL_",
    "REQUESTS_",
    "HTTP_",
    "HTTPS_",
    "NO_PROXY",
    "http_",
    "https_",
    "no_proxy",
    "TMPDIR",
    "SYSTEMROOT",
)
TRAINING = """\
preset: none
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


def set_version(root: Path, version: str, day: date | None = None) -> list[Path]:
    """Write the version and the bounds in all places, and head the changelogs with it; return the changed files.

    ``day`` is that of the release; without it, the changelogs say "(unreleased)".
    """
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
    recipe = root / "recipe/recipe.yaml"
    write(recipe, RECIPE_VERSION.sub(rf"\g<1>{version}\g<3>", recipe.read_text(encoding="utf-8")))
    for directory in [root, *members(root)]:
        path = directory / "pyproject.toml"
        write(path, bounded(PROJECT_VERSION.sub(rf"\g<1>{version}\g<3>", path.read_text(encoding="utf-8"), count=1)))
    shown = [path for pattern in SHOWN for path in root.rglob(pattern) if path.name != "CHANGELOG.md"]
    for path in [*root.glob("examples/*/pyproject.toml"), *shown]:
        if not any(part.startswith(".") for part in path.relative_to(root).parts):
            write(path, bounded(path.read_text(encoding="utf-8")))
    for directory in members(root):
        path = directory / "CHANGELOG.md"
        write(path, with_section(path.read_text(encoding="utf-8"), version, day))
    return changed


def with_section(changelog: str, version: str, day: date | None = None) -> str:
    """Return the changelog with a section of this version at the top, unless it has one.

    A section of a version that was never released is renamed: its changes are in the next one. With ``day``, the
    heading has the date instead of "(unreleased)", and a section without an entry says that there are no changes.
    """
    headings = list(CHANGELOG_HEADING.finditer(changelog))
    own = next((each for each in headings if each[1] == version), None)
    first = headings[0]
    if own is None and "(unreleased)" in first[2]:
        changelog = changelog[: first.start()] + f"## {version} (unreleased)" + changelog[first.end() :]
    elif own is None:
        changelog = f"{changelog[: first.start()]}## {version} (unreleased)\n\n{changelog[first.start() :]}"
    if day is None:
        return changelog
    before, heading, rest = changelog.partition(f"## {version} (unreleased)\n")
    if not heading:
        return changelog  # it has a date already
    entries, following, older = rest.partition("\n## ")
    entries = entries if entries.strip() else f"\nNo changes.\n{entries}"
    return f"{before}## {version} ({day.isoformat()})\n{entries}{following}{older}"


# ---------------------------------------------------------------- build


def build(root: Path, out: Path, only: Sequence[str] = (), isolation: bool = True) -> None:
    """Build an sdist of each member, and its wheel from that sdist, into ``out/core`` and ``out/plugins``."""
    for directory in members(root):
        if only and project(directory)["name"] not in only:
            continue
        target = out / (CORE if directory.name == "core" else PLUGINS)
        if target.exists() and list(target.glob(f"{file_name(directory)}-[0-9]*")):
            raise ReleaseError(f"{target} has files of {file_name(directory)} already; delete them first")
        options = ["--build-constraints", root / "constraints.txt"] if isolation else ["--no-build-isolation"]
        command = [sys.executable, "-m", "uv", "build", "--quiet", "--no-create-gitignore", "--python", sys.executable]
        run([*command, *options, "--out-dir", target, directory])


def file_name(directory: Path) -> str:
    """Return the name of a member as its files have it: ``rlcore_ppo``."""
    return str(project(directory)["name"]).replace("-", "_")


# ---------------------------------------------------------------- check


def check(root: Path, out: Path, only: Sequence[str] = (), tag: str | None = None) -> None:
    """Check everything that would be uploaded. Raises ReleaseError with all problems."""
    version = version_of(root)
    problems = []
    chosen = [each for each in members(root) if not only or project(each)["name"] in only]
    if tag is not None and tag != f"v{version}":
        problems.append(f"the tag is {tag}, and the version {version}: tag v{version}, or run `version {tag[1:]}`")
    expected = set()
    for directory in chosen:
        folder = out / (CORE if directory.name == "core" else PLUGINS)
        name = file_name(directory)
        wheel = folder / f"{name}-{version}-py3-none-any.whl"
        sdist = folder / f"{name}-{version}.tar.gz"
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
    print(f"{len(expected)} files of {len(chosen)} distributions, {megabytes(expected)}; twine check --strict: passed")


def megabytes(paths: Iterable[Path]) -> str:
    """Return the size of files together, such as ``2.1 MB``."""
    return f"{sum(path.stat().st_size for path in paths) / 1e6:.1f} MB"


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
    if is_plugin and not any(re.match(r"rlcore\b(?!-)", each) for each in requirements):
        yield "does not require rlcore"


def sdist_problems(directory: Path, sdist: Path) -> Iterator[str]:
    """Yield the files that an sdist needs, and lacks."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", f"src/{file_name(directory)}/__init__.py"):
        if name not in names:
            yield f"lacks {name}"


# ---------------------------------------------------------------- smoke


@contextmanager
def local_index(wheels: Sequence[Path], uploads: bool = False) -> Iterator[str]:
    """Serve ``wheels``, and nothing else, on a free port of this machine; yield the address for pip.

    With ``uploads``, any program of this machine may add files.
    """
    with tempfile.TemporaryDirectory() as made, socket.socket() as found:
        for wheel in wheels:
            shutil.copyfile(wheel, Path(made) / wheel.name)
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
        found.close()
        # Without a fallback, pypiserver does not send pip to a public index for names that it lacks.
        options = ["--interface", "127.0.0.1", "--port", str(port), "--disable-fallback", "--hash-algo", "sha256"]
        options += ["--authenticate", ".", "--passwords", "."] if uploads else []
        server = subprocess.Popen(
            [sys.executable, "-m", "pypiserver", "run", *options, made], stderr=subprocess.DEVNULL
        )
        try:
            address = f"http://127.0.0.1:{port}/simple/"
            for _ in range(300):
                if server.poll() is not None:
                    raise ReleaseError(f"the local index ended with code {server.returncode}")
                try:
                    urllib.request.urlopen(address, timeout=5).close()
                    break
                except OSError:
                    time.sleep(0.1)
            else:
                raise ReleaseError(f"the local index does not answer at {address}")
            yield address
        finally:
            server.terminate()
            server.wait()


def smoke(root: Path, out: Path, extras: Sequence[str], every: bool = False, python: str = sys.executable) -> None:
    """Install the built core with ``extras`` from a local index; check it, and train there if PPO can.

    With ``every``, all members are installed. ``python`` is the program that makes the virtual environment, so that
    other versions of Python can be tried. Raises ReleaseError for an extra that rlcore does not have: pip only warns.

    The virtual environment and the home directory are new, and the working directory is empty: nothing of the checkout
    can be imported. Members come from the local index alone, and all else from the index that pip is configured with,
    with the versions of ``constraints.txt``.
    """
    if unknown := set(extras) - project(root / "core")["optional-dependencies"].keys():
        raise ReleaseError(f"rlcore has no extra {', '.join(sorted(unknown))}")
    wheels = sorted(path for folder in (CORE, PLUGINS) for path in (out / folder).glob("*.whl"))
    with tempfile.TemporaryDirectory() as made, local_index(wheels) as address:
        machine = Path(made)
        for folder in ("home", "work"):
            (machine / folder).mkdir()
        run([python, "-m", "venv", machine / "venv"])
        scripts = machine / "venv" / ("Scripts" if os.name == "nt" else "bin")
        shutil.copyfile(root / "constraints.txt", machine / "constraints.txt")

        def there(*command: str | Path) -> None:
            run([scripts / command[0], *command[1:]], machine / "work", empty_machine(machine / "home", scripts))

        wanted = (f"rlcore[{','.join(extras)}]" if extras else "rlcore", "rlcore-devkit")  # which has the doctor
        others = [str(project(each)["name"]) for each in members(root)] if every else []
        pinned = [f"{name}=={version_of(root)}" for name in (*wanted, *others)]
        report = machine / "report.json"
        options: list[str | Path] = [
            "-q",
            "-c",
            machine / "constraints.txt",
            "--extra-index-url",
            address,
            "--report",
            report,
        ]
        started = time.monotonic()
        there("python", "-m", "pip", "install", *options, *pinned)
        installed = json.loads(report.read_text(encoding="utf-8"))["install"]
        ours = require_local(installed, address)
        print(
            f"{ours} of {len(wheels)} wheels installed from a local index, {len(installed) - ours} distributions from "
            f"the configured one, in {time.monotonic() - started:.0f} s"
        )
        there("python", "-m", "pip", "check")
        there("rlcore", "plugins", "doctor")
        if every or "standard" in extras:
            (machine / "work/smoke.yaml").write_text(TRAINING, encoding="utf-8")
            there("rlcore", "run", "smoke.yaml")
            there("rlcore", "evaluate", "smoke", "--episodes", "4")


def require_local(installed: Sequence[Mapping[str, Any]], address: str) -> int:
    """Return how many members pip installed, by its report. Raises ReleaseError if one is not from the local index."""
    origins = {each["metadata"]["name"]: str(each["download_info"]["url"]) for each in installed}
    ours = {name: url for name, url in origins.items() if name == "rlcore" or name.startswith("rlcore-")}
    wrong = [f"{name} from {url}" for name, url in ours.items() if not url.startswith(address.removesuffix("simple/"))]
    if wrong:
        raise ReleaseError(f"installed from elsewhere than the local index: {', '.join(wrong)}")
    return len(ours)


def empty_machine(home: Path, scripts: Path) -> dict[str, str]:
    """Return the environment variables of a user who has nothing but Python, and this machine's way to the network."""
    kept = {name: text for name, text in os.environ.items() if name.startswith(NETWORK)}
    search = os.pathsep.join([str(scripts), os.defpath.lstrip(os.pathsep)])
    return kept | {"HOME": str(home), "PATH": search, "LANG": "C.UTF-8", "PYTHONNOUSERSITE": "1"}


# ---------------------------------------------------------------- the command


def run(command: Sequence[str | Path], cwd: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
    """Run a command. Raises ReleaseError if it fails.

    Without ``environment``, it has the variables of this process but those that would let this checkout shine through.
    """
    variables = environment or {
        name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "RLCORE_"))
    }
    if subprocess.run(command, cwd=cwd, env=variables, check=False).returncode:
        raise ReleaseError(f"failed: {' '.join(map(str, command))}")


def day_of(text: str) -> date:
    """Return the day of ``2027-01-31`` or ``today``. Raises ValueError for another text."""
    return date.today() if text == "today" else date.fromisoformat(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="tools/release.py", description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("version", help="print the version, or write it in all places")
    command.add_argument("version", nargs="?")
    command.add_argument("--date", type=day_of, help="the day of the release, such as 2027-01-31, or today")
    for name, text in (
        ("build", "build sdists, and wheels from them"),
        ("check", "check what was built"),
        ("smoke", "install what was built from a local index, where nothing else is, and train"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("out", type=Path)
        if name == "smoke":
            command.add_argument("--extras", default="standard", help="extras of rlcore to install; none: ''")
            command.add_argument("--all", action="store_true", help="install all members too")
            command.add_argument("--python", default=sys.executable, help="such as python3.13; this one by default")
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
            for path in set_version(ROOT, given.version, given.date):
                print(path.relative_to(ROOT))
        elif given.command == "build":
            build(ROOT, given.out, given.only, not given.no_isolation)
        elif given.command == "check":
            check(ROOT, given.out, given.only, given.tag)
        else:
            smoke(ROOT, given.out, [each for each in given.extras.split(",") if each], given.all, given.python)
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
