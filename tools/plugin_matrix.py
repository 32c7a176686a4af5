"""Try plugins with this commit and with the published one: what changes here must not break packages of others.

    python tools/plugin_matrix.py                              all of tools/plugins.yaml, and a scaffold of each kind
    python tools/plugin_matrix.py trainer examples/a2c_plugin  some of them: a kind, a folder
    python tools/plugin_matrix.py acme-rl ../my-plugin         other packages: what pip installs, or a folder
    python tools/plugin_matrix.py --page matrix.md             also write the table as a page of Markdown

The published commit is the newest tag. Before the first tag, it is the last commit with another list of public names.
A package of this repository is tried as it is at both commits: the older one is what users copied. Each package is
installed, checked by ``rlcore plugins doctor``, and tested by its own tests. The exit code is 1 if a package fails with
this commit.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from plugin_trials import (
    NAMES,
    Environment,
    MatrixError,
    Trial,
    environment_of,
    git,
    link_libraries,
    published,
    try_package,
    unpack,
)

ROOT = Path(__file__).parent.parent
LISTED = "tools/plugins.yaml"
SHOWN_NAMES = 20
KINDS = "from rlcore_devkit.scaffold.kinds import KINDS; print(*KINDS)"
# One process: a start of Python for each kind would cost more.
SCAFFOLDS = """\
import sys
from rlcore.cli.main import main
for kind in sys.argv[2:]:
    words = ["plugins", "new", "--distribution", f"tried-rl-{kind}", "--kind", kind, "--dir", sys.argv[1]]
    if main([*words, "--author", "Ann Example", "--email", "ann@example.com"]):
        sys.exit(kind)
"""


@dataclass(frozen=True)
class Listed:
    """A package to try."""

    package: str  # a folder of this repository, or what pip installs
    tests: str = ""  # an expression for `-k` of pytest


@dataclass(frozen=True)
class Row:
    """A package as it is at one commit, and what became of it with both."""

    package: str
    written_for: str
    with_last: Trial
    with_this: Trial
    superseded: bool = False  # the package differs at this commit, so its own faults may be mended there

    @property
    def verdict(self) -> str:
        """What a reader should know."""
        if self.with_this.result == "passed":
            return "works with both" if self.with_last.result == "passed" else "needs this commit"
        if self.with_this.result == "refused":
            return "refused with the reason"
        return "broken by this commit" if self.with_last.result == "passed" else "fails with both"

    @property
    def is_bad(self) -> bool:
        """Whether it fails with this commit; a superseded package that failed before is not its fault."""
        return self.with_this.result == "failed" and not (self.superseded and self.with_last.result == "failed")


@dataclass
class Side:
    """One of the two commits: its label, its files, its environment, and the packages as they are there."""

    label: str
    source: Path
    environment: Environment
    packages: dict[str, Path] = field(default_factory=dict)


# ---------------------------------------------------------------- what is tried


def listed(root: Path) -> list[Listed]:
    """Return the packages of ``tools/plugins.yaml``."""
    entries = yaml.safe_load((root / LISTED).read_text(encoding="utf-8"))
    return [Listed(each["package"], each.get("tests", "")) for each in entries]


def scaffolds(side: Side, directory: Path) -> dict[str, Path]:
    """Write a package of each kind with the rlcore of a commit, and return the folders by kind."""
    kinds = side.environment.run("-c", KINDS, cwd=side.source).stdout.split()
    directory.mkdir()
    ran = side.environment.run("-c", SCAFFOLDS, directory, *kinds, cwd=directory)
    if ran.returncode:
        raise MatrixError(f"{side.label}: rlcore plugins new failed\n{ran.stderr}")
    return {kind: directory / f"tried-rl-{kind}" for kind in kinds}


def fetched(requirement: str, directory: Path) -> Path:
    """Return the folder of a package, or the wheel if there is no sdist. ``requirement`` is what pip installs."""
    if Path(requirement).exists():
        return Path(requirement).resolve()
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(directory), requirement]
    for options in (["--no-binary", ":all:"], []):
        if subprocess.run([*command, *options], check=False).returncode == 0:
            break
    else:
        raise MatrixError(f"{requirement}: pip cannot download it")
    (file,) = directory.iterdir()
    if file.suffix == ".whl":
        return file
    with tarfile.open(file) as archive:
        archive.extractall(directory / "unpacked", filter="data")
    (folder,) = (directory / "unpacked").iterdir()
    return folder


def equal(first: Path, second: Path) -> bool:
    """Return whether two folders have the same files."""
    found = filecmp.dircmp(first, second)
    if found.left_only or found.right_only or found.funny_files:
        return False
    _, wrong, errors = filecmp.cmpfiles(first, second, found.common_files, shallow=False)
    return not wrong and not errors and all(equal(first / each, second / each) for each in found.common_dirs)


# ---------------------------------------------------------------- the matrix


def sides(root: Path, last: str, this: str, place: Path) -> tuple[Side, Side]:
    """Return both commits with their environments."""
    libraries = link_libraries(place / "libraries")
    found = []
    for name, commit in (("last", last), ("this", this)):
        source = unpack(root, commit, place / name / "source")
        environment = environment_of(source, libraries, place / name / "environment")
        found.append(Side(commit, source, environment))
    return found[0], found[1]


def rows(last: Side, this: Side, tests: Mapping[str, str], place: Path, jobs: int) -> Iterator[Row]:
    """Try each package of both sides with both environments; yield the rows in their order."""
    versions = []
    for name in dict.fromkeys([*last.packages, *this.packages]):
        old, new = last.packages.get(name), this.packages.get(name)
        if old is not None and new is not None and (old == new or equal(old, new)):
            versions.append((name, "both", old))
            continue
        versions += [(name, label, path) for label, path in ((last.label, old), (this.label, new)) if path is not None]
    with ThreadPoolExecutor(jobs) as pool:
        waiting = []
        for number, (name, label, path) in enumerate(versions):
            trials = []
            for side in (last, this):
                own = place / "trials" / f"{number}-{side.source.parent.name}"
                own.mkdir(parents=True)
                trials.append(pool.submit(try_package, path, tests.get(name, ""), side.environment, own))
            waiting.append((name, label, trials))
        for name, label, (with_last, with_this) in waiting:
            superseded = label == last.label and name in this.packages
            yield Row(name, label, with_last.result(), with_this.result(), superseded)


def matrix(
    root: Path, chosen: Sequence[str], last: str, this: str, place: Path, jobs: int, told: bool = True
) -> list[Row]:
    """Return the rows for the packages of the list, or for those that are ``chosen``."""
    before, now = sides(root, last, this, place)
    every = {each.package: each for each in listed(now.source)}
    kinds = [scaffolds(side, place / side.source.parent.name / "scaffolds") for side in (before, now)]
    wanted = chosen or [*every, *dict.fromkeys([*kinds[0], *kinds[1]])]
    for number, name in enumerate(wanted):
        for side, written in zip((before, now), kinds, strict=True):
            if name in written:
                side.packages[f"--kind {name}"] = written[name]
            elif (side.source / name / "pyproject.toml").is_file():
                side.packages[name] = side.source / name
        if not any(each in side.packages for side in (before, now) for each in (name, f"--kind {name}")):
            (place / f"fetched-{number}").mkdir()
            before.packages[name] = now.packages[name] = fetched(name, place / f"fetched-{number}")
    found = []
    for row in rows(before, now, {name: each.tests for name, each in every.items()}, place, jobs):
        found.append(row)
        if told:
            print(f"{row.package} ({row.written_for}): {row.verdict}", file=sys.stderr, flush=True)
    return found


# ---------------------------------------------------------------- the page


def page(root: Path, last: str, this: str, found: Sequence[Row], seconds: float) -> str:
    """Return the table as a page of Markdown, with the names that differ, and what failed."""
    bad = [row for row in found if row.is_bad]
    summary = f"{len(found) - len(bad)} of {len(found)} rows pass with {this}."
    lines = ["# Plugins with this commit and the published one", "", f"{summary} The published commit is {last}."]
    lines += [f"It took {seconds / 60:.1f} minutes.", ""]
    lines += [f"| package | as it is at | with {last} | with {this} | verdict |", "|---|---|---|---|---|"]
    for row in found:
        verdict = f"**{row.verdict}**" if row.is_bad else row.verdict
        lines.append(
            f"| `{row.package}` | {row.written_for} | {_cell(row.with_last)} | {_cell(row.with_this)} | {verdict} |"
        )
    for row in bad:
        lines += ["", f"## {row.package}, as it is at {row.written_for}", "", "```text"]
        lines += [*row.with_this.details.splitlines()[:12], "```"]
    differing = names_that_differ(root, last, this)
    if differing:
        lines += ["", "## Public names that differ", "", "```diff", *differing[:SHOWN_NAMES]]
        more = len(differing) - SHOWN_NAMES
        lines += [f"... and {more} more"] * (more > 0) + ["```"]
    return "\n".join([*lines, ""])


def _cell(trial: Trial) -> str:
    return f"{trial.said}, {trial.seconds:.0f} s"


def names_that_differ(root: Path, last: str, this: str) -> list[str]:
    """Return the lines that only one of the two lists of public names has, with ``-`` or ``+``."""
    old, new = (set(git(root, "show", f"{commit}:{NAMES}").splitlines()) for commit in (last, this))
    return [f"- {each}" for each in sorted(old - new)] + [f"+ {each}" for each in sorted(new - old)]


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="tools/plugin_matrix.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("packages", nargs="*", help="kinds, folders, or what pip installs; the list by default")
    parser.add_argument("--this", default="HEAD", help="a commit; uncommitted changes are not tried")
    parser.add_argument("--last", help="the published commit")
    parser.add_argument("--page", type=Path, help="a file for the table")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="packages at a time")
    given = parser.parse_args(arguments)
    started = time.monotonic()
    try:
        this = git(root, "rev-parse", "--short=8", given.this)
        last = given.last or published(root, this)
        with tempfile.TemporaryDirectory() as place:
            found = matrix(root, given.packages, last, this, Path(place), given.jobs)
        text = page(root, last, this, found, time.monotonic() - started)
    except MatrixError as error:
        print(error, file=sys.stderr)
        return 1
    print(text, end="")
    if given.page is not None:
        given.page.write_text(text, encoding="utf-8")
    return int(any(row.is_bad for row in found))


if __name__ == "__main__":
    sys.exit(main())
