"""Train fixed configurations, and compare the results of two versions of rlcore bit for bit.

A change that moves code without changing what it computes leaves the state in every checkpoint, every line of the
metrics and the result equal. Train the configurations of ``equal_runs.yaml`` with both versions, in a virtual
environment each, on one machine, and compare:

    old/bin/python tools/equal_runs.py run /tmp/old            # in a checkout, with the rlcore of this interpreter
    new/bin/python tools/equal_runs.py run /tmp/new
    python tools/equal_runs.py compare /tmp/old /tmp/new       # exit code 1 if anything differs

    old/bin/python tools/equal_runs.py resume /tmp/old /tmp/old-by-old    # continues copies of the runs
    new/bin/python tools/equal_runs.py resume /tmp/old /tmp/old-by-new    # reads checkpoints of the other version

The commands take names of cases; by default they take all. ``compare`` prints the largest difference at each step, so
that one that grows is told from one that is there at once, the entries that differ most, and what only one of the two
has. The size of a difference is relative to the largest value of the entry if that is above 1, else absolute.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from safetensors.numpy import load_file

TOOLS = Path(__file__).resolve().parent
NOT_COMPARED = re.compile(r"run/(fingerprint|factories)|/(time|\w*seconds|steps_per_second)$|/Performance/.*")


def rlcore(arguments: list[str], place: Path, ranks: int = 1) -> None:
    """Run a command of rlcore in ``place``; end the program with its output if it fails."""
    start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    path = os.pathsep.join([str(TOOLS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *start, "-m", "rlcore", *arguments],
        cwd=place,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        sys.exit(f"rlcore {' '.join(arguments)}: exit code {done.returncode}\n{done.stdout}")


def document_of(case: dict[str, Any], name: str) -> dict[str, Any]:
    document = {key: value for key, value in case.items() if key not in ("needs", "ranks")}
    local = document.get("plugins", {}).get("local", [])
    if local:
        document["plugins"] = {"local": [str((TOOLS / file).resolve()) for file in local]}
    return {
        "preset": "none",
        **document,
        "env_settings": {"seed": 5},
        "checkpoint_settings": {"run_id": name, "results_dir": "."},
        "stats": {"console": False},
    }


def train(cases: dict[str, Any], names: list[str], place: Path) -> None:
    """Train the cases in ``place``, the ones that others need first."""
    place.mkdir(parents=True, exist_ok=True)
    for name in names:
        case = cases[name]
        start = time.perf_counter()
        needed = case.get("needs")
        if needed and not (place / "recordings").exists():
            if not (place / needed).exists():
                train(cases, [needed], place)
            rlcore(["evaluate", f"./{needed}", "--episodes", "20", "--record", "recordings"], place)
        file = place / f"{name}.yaml"
        file.write_text(yaml.safe_dump(document_of(case, name), sort_keys=False))
        rlcore(["run", file.name], place, case.get("ranks", 1))
        print(f"{name}: {time.perf_counter() - start:.1f} s", flush=True)


def resume(cases: dict[str, Any], names: list[str], source: Path, place: Path) -> None:
    """Continue copies of the runs in ``source`` for as many steps as they have."""
    place.mkdir(parents=True, exist_ok=True)
    if (source / "recordings").exists():
        shutil.copytree(source / "recordings", place / "recordings", dirs_exist_ok=True)
    for name in names:
        case = cases[name]
        shutil.copytree(source / name, place / name)
        options = []
        for behavior, settings in case["behaviors"].items():
            steps = settings.get("max_steps") or case["default_settings"]["max_steps"]
            options += ["--set", f"behaviors.{behavior}.max_steps={2 * steps}"]
        file = place / f"{name}.yaml"
        file.write_text(yaml.safe_dump(document_of(case, name), sort_keys=False))
        rlcore(["run", file.name, "--resume", *options], place, case.get("ranks", 1))
        print(f"{name}: resumed", flush=True)


class Entry(NamedTuple):
    """The name of a value in the results of a run; it is the same in both versions."""

    step: int
    name: str


class Difference(NamedTuple):
    """How two values differ; ``size`` is infinite where they are no numbers of the same shape."""

    size: float
    text: str


def entries_of(run: Path) -> Iterator[tuple[Entry, Any]]:
    """Yield every value of the checkpoints, the metrics and the result."""
    last = 0
    for place in sorted((run / "checkpoints").iterdir(), key=lambda place: int(place.name)):
        arrays = {file.name: load_file(file) for file in place.glob("*.safetensors")}
        last = int(place.name)
        for top, state in json.loads((place / "state.json").read_text()).items():
            for name, value in leaves(state, top, arrays, f"{top}.safetensors"):
                yield Entry(last, name), value
    for number, line in enumerate((run / "metrics.jsonl").read_text().splitlines(), 1):
        summary = json.loads(line)
        for name, value in leaves(summary, f"metrics.jsonl line {number}", {}, ""):
            yield Entry(summary["step"], name), value
    for name, value in leaves(json.loads((run / "result.json").read_text()), "result.json", {}, ""):
        yield Entry(last, name), value


def leaves(state: Any, name: str, arrays: dict[str, Any], file: str) -> Iterator[tuple[str, Any]]:
    """Yield the values of a tree with their paths; ``arrays`` are those of the safetensors files beside it.

    A file that is named by its content is read where the tree refers to it: its name differs with any bit.
    """
    if isinstance(state, list) and {type(value) for value in state} in ({float}, {int, float}):
        state = np.array(state, np.float64)
    if isinstance(state, dict) and state.keys() == {"$array"}:
        yield name, arrays[file][state["$array"]]
    elif isinstance(state, dict) and "$frozen" in state:
        yield from leaves(state["content"], name, arrays, state["$frozen"])
    elif isinstance(state, dict) and {"paths", "leaves"} <= state.keys():  # what another rank has of its own
        for path, value in zip(state["paths"], state["leaves"], strict=True):
            yield from leaves(value, "/".join([name, *path]), arrays, file)
    elif isinstance(state, dict) and state:
        for key, value in state.items():
            yield from leaves(value, f"{name}/{key}", arrays, file)
    elif isinstance(state, list) and state:
        for index, value in enumerate(state):
            yield from leaves(value, f"{name}/{index}", arrays, file)
    else:
        yield name, state


def difference(a: Any, b: Any) -> Difference | None:
    """How two values differ; None if they are equal bit for bit."""
    if isinstance(a, float) and isinstance(b, float):
        a = np.array(a)
        b = np.array(b)
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return None if type(a) is type(b) and a == b else Difference(float("inf"), f"{a!r:.60} against {b!r:.60}")
    if a.shape != b.shape or a.dtype != b.dtype:
        return Difference(float("inf"), f"{a.dtype} {list(a.shape)} against {b.dtype} {list(b.shape)}")
    if a.tobytes() == b.tobytes():
        return None
    changed = int(np.count_nonzero((a != b) & ~((a != a) & (b != b))))
    if not changed:
        return Difference(0.0, "only signs of zeros, or bits of NaN")
    if a.dtype.kind != "f" or not (np.isfinite(a) & np.isfinite(b)).all():
        return Difference(float("inf"), f"{changed} of {a.size} values")
    far = float(np.max(np.abs(a.astype(np.float64) - b)))
    largest = float(max(np.max(np.abs(a)), np.max(np.abs(b))))
    text = f"{far:.2g} absolute, {far / largest:.2g} relative, {changed} of {a.size} values"
    return Difference(far / max(1.0, largest), text)


def compare(a: Path, b: Path, names: list[str], most: int) -> int:
    """Print for each case what differs, the ``most`` largest differences among it; return the exit code."""
    different = False
    skipped: set[str] = set()
    for name in names:
        if not (a / name).exists() and not (b / name).exists():
            continue
        if not (a / name).exists() or not (b / name).exists():
            different = True
            print(f"{name}: only in {'the first' if (a / name).exists() else 'the second'}")
            continue
        runs = [dict(entries_of(place / name)) for place in (a, b)]
        skipped |= {entry.name for run in runs for entry in run if NOT_COMPARED.search(entry.name)}
        left, right = ({at: run[at] for at in run if not NOT_COMPARED.search(at.name)} for run in runs)
        common = left.keys() & right.keys()
        found = {entry: far for entry in common if (far := difference(left[entry], right[entry]))}
        absent = left.keys() ^ right.keys()
        different |= bool(found or absent)
        print(f"{name}: {len(common) - len(found)} entries equal, {len(found)} differ, {len(absent)} in one of the two")
        largest: dict[int, float] = {}
        for entry, far in sorted(found.items()):
            if far.size < float("inf"):
                largest[entry.step] = max(far.size, largest.get(entry.step, 0.0))
        if largest:
            print("    largest by step:", ", ".join(f"{step}: {far:.2g}" for step, far in largest.items()))
        for entry, far in sorted(found.items(), key=lambda item: (-item[1].size, item[0]))[:most]:
            print(f"    step {entry.step} {entry.name}: {far.text}")
        if len(found) > most:
            print(f"    and {len(found) - most} more, which --most prints")
        only: dict[tuple[str, str], list[int]] = {}
        for entry in sorted(absent):
            only.setdefault(("the first" if entry in left else "the second", entry.name), []).append(entry.step)
        for (which, entry_name), steps in only.items():
            print(f"    only in {which}: {entry_name} (at {', '.join(map(str, steps))})")
    if skipped:
        ends = sorted({NOT_COMPARED.search(name).group() for name in skipped})  # type: ignore[union-attr]
        print("not compared, because times and installed packages differ:", ", ".join(ends))
    return int(different)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for command, places in (("run", ["place"]), ("resume", ["source", "place"]), ("compare", ["source", "place"])):
        sub = commands.add_parser(command)
        for place in places:
            sub.add_argument(place, type=Path)
        sub.add_argument("cases", nargs="*")
        if command == "compare":
            sub.add_argument("--most", type=int, default=5, help="how many differing entries of a case to print")
    given = parser.parse_args()
    cases = yaml.safe_load((TOOLS / "equal_runs.yaml").read_text())
    unknown = set(given.cases) - set(cases)
    if unknown:
        parser.error(f"no case {sorted(unknown)}; there are {', '.join(cases)}")
    names = given.cases or list(cases)
    if given.command == "run":
        train(cases, names, given.place.resolve())
    elif given.command == "resume":
        resume(cases, names, given.source.resolve(), given.place.resolve())
    else:
        return compare(given.source, given.place, names, given.most)
    return 0


if __name__ == "__main__":
    sys.exit(main())
