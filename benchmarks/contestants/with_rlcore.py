"""rlcore as a user types it: ``rlcore run --env ID``, and ``rlcore run --resume`` after a kill; its values by default.

A checkpoint is written after every tenth of the steps, the default. The random states are those of rlcore's generators
and of Python and NumPy; it draws nothing from PyTorch's generator of the process.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from measured import Instrument, command_line

IDS = {"ppo": "CartPole-v1", "sac": "Pendulum-v1"}


def checkpoints(place: Path) -> list[Path]:
    """The checkpoints of the run, oldest first."""
    found = (path for path in place.glob("results/contest/checkpoints/*") if path.name.isdecimal())
    return sorted(found, key=lambda path: int(path.name))


def words(task: str, place: Path, steps: int, seed: int) -> list[str]:
    """Return the command that a user types."""
    where = ["--run-id", "contest", "--results-dir", str(place / "results")]
    if checkpoints(place):
        return ["run", "--resume", *where]  # resume
    return ["run", "--env", IDS[task], "--trainer", task, "--max-steps", str(steps), "--seed", str(seed), *where]


def end(place: Path, instrument: Instrument) -> None:
    """The state at the end is what the last checkpoint has; the learning rate is the last one in the summaries."""
    from safetensors.numpy import load_file

    last = checkpoints(place)[-1]
    text = (last / "state.json").read_text()
    state = json.loads(text)
    behavior = next(iter(state["run"]["steps"]))
    arrays = load_file(last / f"{behavior}.safetensors")
    of_run = load_file(last / "run.safetensors")
    lines = (place / "results/contest/metrics.jsonl").read_text().splitlines()
    stats = json.loads(lines[-1])["stats"]

    def named(beginning: str, among: dict[str, Any] = arrays) -> dict[str, Any]:
        return {name: array for name, array in among.items() if name.startswith(beginning)}

    generators = {"environment": state["run"]["environment"], "trainer": state[behavior]["generators"]}
    written = np.frombuffer(json.dumps(generators, sort_keys=True).encode(), np.uint8)
    optimizer = named("optimizer")
    instrument.end(
        weights=named("model/"),
        optimizer=optimizer,
        steps=state["run"]["steps"],
        updates=state[behavior].get("gradient_steps", optimizer.get("optimizer/step")),
        normalizer=named("normalizer"),
        replay=segments(last, text),
        random={"own": written, **named("generators", of_run), **named("noise")},
        rate={name: value for name, value in stats.items() if "Learning Rate" in name},
    )


def segments(checkpoint: Path, text: str) -> dict[str, Any] | None:
    """Return the rows of the replay buffer: its segments in the order in which the state names them."""
    from safetensors.numpy import load_file

    files = sorted(checkpoint.glob("_frozen-*.safetensors"), key=lambda path: text.index(path.stem.split("-")[1]))
    loaded = [load_file(file) for file in files]
    return {name: np.concatenate([each[name] for each in loaded]) for name in loaded[0]} if loaded else None


def main() -> None:
    task, place, steps, seed = command_line()
    instrument = Instrument(place)
    saved = checkpoints(place)
    instrument.began(int(saved[-1].name) if saved else 0)
    from rlcore.cli.main import main as rlcore

    sys.argv = ["rlcore", *words(task, place, steps, seed)]
    code = rlcore(own_process=True)
    if code:
        sys.exit(code)
    end(place, instrument)


if __name__ == "__main__":
    main()
