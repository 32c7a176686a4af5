"""Train fixed configurations, and compare the results of two versions of rlcore bit for bit.

A change that moves code without changing what it computes leaves every array of every checkpoint and every line of the
metrics equal. Train the configurations of ``equal_runs.yaml`` with both versions, in a virtual environment each, on one
machine, and compare:

    old/bin/python tools/equal_runs.py run /tmp/old            # in a checkout, with the rlcore of this interpreter
    new/bin/python tools/equal_runs.py run /tmp/new
    python tools/equal_runs.py compare /tmp/old /tmp/new       # exit code 1 if anything differs

    old/bin/python tools/equal_runs.py resume /tmp/old /tmp/old-by-old    # continues copies of the runs
    new/bin/python tools/equal_runs.py resume /tmp/old /tmp/old-by-new    # reads checkpoints of the other version

``run`` and ``resume`` take names of cases; by default they train all.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from safetensors.numpy import load_file

TOOLS = Path(__file__).resolve().parent
TIMES = ("time", "performance/", "seconds")


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
        **document,
        "env_settings": {"seed": 5},
        "checkpoint_settings": {"run_id": name, "results_dir": "."},
        "stats": {"console": False},
    }


def train(cases: dict[str, Any], names: list[str], place: Path) -> None:
    """Train the cases in ``place``, the ones that others need first."""
    place.mkdir(parents=True, exist_ok=True)
    for name in names:
        case, start = cases[name], time.perf_counter()
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


def arrays_of(run: Path) -> Iterator[tuple[str, Any]]:
    """Yield the arrays of all checkpoints, and the lines of the metrics without times."""
    for file in sorted(run.glob("checkpoints/*/*.safetensors")):
        for name, array in sorted(load_file(file).items()):
            yield f"checkpoints/{file.parent.name}/{name}", array
    for number, line in enumerate((run / "metrics.jsonl").read_text().splitlines(), 1):
        summary = json.loads(line)
        stats = summary.pop("stats", {})
        for name, value in sorted({**summary, **stats}.items()):
            if not any(word in name.lower() for word in TIMES):
                yield f"metrics.jsonl line {number} {name}", value


def difference(a: Any, b: Any) -> float:
    """The largest absolute difference; 0.0 if equal bit for bit, infinite if the values cannot be compared."""
    if isinstance(a, np.ndarray):
        if a.shape != getattr(b, "shape", None) or a.dtype != b.dtype:
            return float("inf")
        if a.tobytes() == b.tobytes():
            return 0.0
        return float(np.max(np.abs(a.astype(np.float64) - b.astype(np.float64)))) or float("inf")
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b)
    return 0.0 if a == b else float("inf")


def compare(a: Path, b: Path, names: list[str]) -> int:
    """Print for each case whether its results are equal; return the exit code."""
    different = False
    for name in names:
        if not (a / name).exists() and not (b / name).exists():
            continue
        left, right = dict(arrays_of(a / name)), dict(arrays_of(b / name))
        absent = sorted(left.keys() ^ right.keys())
        found = {
            entry: far for entry in sorted(left.keys() & right.keys()) if (far := difference(left[entry], right[entry]))
        }
        different |= bool(found or absent)
        if not found and not absent:
            print(f"{name}: equal, {len(left)} entries")
            continue
        print(f"{name}: {len(found)} of {len(left)} entries differ, {len(absent)} are in one of the two")
        for entry, far in sorted(found.items(), key=lambda item: -item[1])[:5]:
            print(f"    {entry}: {far:.3g}")
        for entry in absent[:5]:
            print(f"    only in {'the first' if entry in left else 'the second'}: {entry}")
    return int(different)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for command, places in (("run", ["place"]), ("resume", ["source", "place"]), ("compare", ["source", "place"])):
        sub = commands.add_parser(command)
        for place in places:
            sub.add_argument(place, type=Path)
        sub.add_argument("cases", nargs="*")
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
        return compare(given.source, given.place, names)
    return 0


if __name__ == "__main__":
    sys.exit(main())
