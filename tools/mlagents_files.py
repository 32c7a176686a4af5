"""Validate ML-Agents' configuration files, and train each for some steps in an environment of its scene's shapes.

The files are not part of this repository. Take the folder ``config`` of a checkout of ML-Agents::

    python tools/mlagents_files.py ml-agents/config --work /tmp/files
    python tools/mlagents_files.py ml-agents/config --work /tmp/files poca/SoccerTwos.yaml --set export='{onnx: {}}'

Each file is validated as it is, and trained in the example scene that has its behaviors (``mlagents_scenes.py``), with
its own settings but for ``max_steps``, and for rollouts that so few steps would not fill twice: those are smaller.
``rlcore`` runs in ``--work``. A demonstration that a file names is read there, for example from a link to ``Project``
of ML-Agents; one that is not there is recorded first, by rlcore. A file has trained if all behaviors of its scene have
made all their steps, each with at least one update, and all losses are finite. The exit code is 1 if any file is
refused or has not trained.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import yaml
from mlagents_scenes import scene_of

from rlcore import ConfigError

TOOLS = Path(__file__).resolve().parent


@attrs.frozen
class Outcome:
    """What became of one file.

    Attributes:
        file: Its path in the directory.
        refused: What ``rlcore validate`` said; empty if the file is valid.
        failed: Why it has not trained; empty if it has.
        seconds: Time of the training.
    """

    file: str
    refused: str = ""
    failed: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        words = self.refused or self.failed or f"trained in {self.seconds:.0f} s"
        return f"{self.file:32} {'refused: ' if self.refused else 'failed: ' if self.failed else ''}{words}"


def check(directory: Path, file: str, work: Path, steps: int = 2000, options: Sequence[str] = ()) -> Outcome:
    """Validate and train one file of ``directory``; ``options`` are those of ``rlcore run``."""
    path = (directory / file).resolve()
    if words := rlcore(["validate", str(path)], work):
        return Outcome(file, refused=words)
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    try:
        scene = scene_of(list(document["behaviors"]))
    except ConfigError as error:
        return Outcome(file, failed=str(error))
    for demonstration in sorted(demonstrations(document)):
        if not (work / demonstration).exists() and (words := record(scene, work, demonstration)):
            return Outcome(file, failed=words)
    run_id = file.removesuffix(".yaml").replace("/", "-")
    start = time.monotonic()
    options = [*limits(run_id, steps), *small_rollouts(document, steps), *options]
    words = rlcore(["run", str(path), *in_scene(scene), *options], work)
    return Outcome(file, failed=words or untrained(work / "results" / run_id, steps), seconds=time.monotonic() - start)


def rlcore(arguments: Sequence[str], work: Path) -> str:
    """Run a command of rlcore in ``work``; return what it said of an error, or nothing."""
    path = os.pathsep.join([str(TOOLS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "rlcore", *arguments],
        cwd=work,
        env={"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return "; ".join(said) or f"exit code {done.returncode}" if done.returncode else ""


def in_scene(scene: str) -> list[str]:
    plugin = ["-p", "module:mlagents_scenes", "--allow-local"]
    return [*plugin, "--set", "environment.type=mlagents_scene", "--set", f"environment.id={scene}", "--num-envs", "8"]


def limits(run_id: str, steps: int) -> list[str]:
    return ["--run-id", run_id, "--force", "--max-steps", str(steps), "--seed", "1"]


def small_rollouts(document: dict[str, Any], steps: int) -> Iterator[str]:
    """Options for rollouts of half as many steps, in four minibatches, where the file has larger ones."""
    blocks = {f"behaviors.{name}": block for name, block in document["behaviors"].items()}
    if "default_settings" in document:
        blocks["default_settings"] = document["default_settings"]
    for key, block in blocks.items():
        given = block.get("hyperparameters", {})
        for name, most in (("buffer_size", steps // 2), ("batch_size", steps // 8)):
            if block.get("trainer_type") in ("ppo", "poca") and given.get(name, 0) > most:
                yield from ("--set", f"{key}.hyperparameters.{name}={most}")


def demonstrations(block: Any) -> Iterator[str]:
    """All values of ``demo_path``."""
    if isinstance(block, dict):
        for key, value in block.items():
            if key == "demo_path":
                yield value
            else:
                yield from demonstrations(value)


def record(scene: str, work: Path, demonstration: str) -> str:
    """Record some episodes of a hardly trained policy; return what went wrong, or nothing."""
    run_id = f"demonstrates-{scene}"
    behavior = scene
    configuration = work / f"{run_id}.yaml"
    recorded = work / f"{run_id}-recorded"
    block = {"trainer_type": "ppo", "hyperparameters": {"batch_size": 32, "buffer_size": 128}}
    configuration.write_text(yaml.safe_dump({"behaviors": {behavior: block}}), encoding="utf-8")
    words = rlcore(["run", configuration.name, *in_scene(scene), *limits(run_id, 128)], work)
    evaluate = ["evaluate", f"results/{run_id}", "--episodes", "20", "--allow-local"]
    words = words or rlcore([*evaluate, "--record", recorded.name, "--record-format", "mlagents"], work)
    if not words:
        place = work / demonstration
        place.parent.mkdir(parents=True, exist_ok=True)
        (recorded / behavior / f"{behavior}.demo").rename(place)
    return words


def untrained(run: Path, steps: int) -> str:
    """Why the run has not trained; nothing if it has."""
    behaviors = json.loads((run / "result.json").read_text(encoding="utf-8"))["behaviors"]
    losses: dict[str, dict[str, float | None]] = {name: {} for name in behaviors}
    for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        found = {tag: value for tag, value in entry["stats"].items() if tag.startswith("Losses/")}
        losses[entry["behavior"]] |= found
    for name, result in behaviors.items():
        if result["steps"] < steps:
            return f"{name} has made {result['steps']} steps"
        if not losses[name]:
            return f"{name} has not been updated"
        odd = [tag for tag, value in losses[name].items() if value is None]  # as the file has what is not finite
        if odd:
            return f"{name}: {odd[0]} is not finite"
    return ""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="folder of ML-Agents' files")
    parser.add_argument("files", nargs="*", help="files in it; all by default")
    parser.add_argument("--work", type=Path, required=True, help="where rlcore runs")
    parser.add_argument("--steps", type=int, default=2000, help="agent steps of every behavior")
    parser.add_argument("--set", action="append", default=[], metavar="A.B=VALUE", help="as in `rlcore run`")
    given = parser.parse_intermixed_args(arguments)
    given.work.mkdir(parents=True, exist_ok=True)
    found = sorted(given.directory.rglob("*.yaml"))
    files = given.files or [path.relative_to(given.directory).as_posix() for path in found]
    options = [part for setting in given.set for part in ("--set", setting)]
    outcomes = []
    for file in files:
        outcomes.append(check(given.directory, file, given.work, given.steps, options))
        print(outcomes[-1], flush=True)
    trained = sum(not (outcome.refused or outcome.failed) for outcome in outcomes)
    valid = sum(not outcome.refused for outcome in outcomes)
    print(f"{valid} of {len(outcomes)} files are valid, {trained} of {len(outcomes)} have trained {given.steps} steps")
    return int(trained < len(outcomes))


if __name__ == "__main__":
    sys.exit(main())
