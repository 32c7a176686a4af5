"""Trains configurations one after the other, as a rank of torchrun or as one process, and writes down what was learned.

``python train_in_ranks.py OUT CONFIG...``; a test calls :func:`train` for one process. With RLCORE_TEST_KILL=N, rank 1
kills itself in update N of the first attempt.

A rank also writes down how often it exchanged something in updates, before the first one and after it, and how many
addresses but those of this machine alone it listens to. It agrees on stops after as many steps as on a fast machine.
"""

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import psutil
import torch

import rlcore_torch.ranks.episodes
from rlcore import Run
from rlcore_torch.ranks.torch_ranks import TorchRanks

RANK = os.environ.get("RANK", "one")
KILL_AT = int(os.environ.get("RLCORE_TEST_KILL", "0"))
ATTEMPT = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def train(config: Path, out: Path) -> None:
    run = Run(config)
    run.start()
    weights: dict[str, list[np.ndarray]] = {name: [] for name in run.behaviors}
    steps: list[int] = []
    exchanges = [0, 0, 0]  # in updates, before the first one, elsewhere
    place = [1]  # in `exchanges`
    if isinstance(ranks := run._started.context.ranks, TorchRanks):
        count_exchanges(ranks, exchanges, place)
    games: dict[str, list[str]] = {name: [] for name in run.behaviors}

    def noting(behavior, update):
        def noted():
            if KILL_AT and RANK == "1" and ATTEMPT == 0 and behavior.updates + 1 == KILL_AT:
                os.kill(os.getpid(), signal.SIGKILL)
            place[0] = 0
            stats = update()
            place[0] = 2
            parameters = [p.detach().reshape(-1) for p in behavior.trainer.model.parameters()]
            weights[behavior.name].append(torch.cat(parameters).numpy().copy())
            steps.append(behavior.trainer.steps)
            if hasattr(behavior.trainer, "controller"):
                games[behavior.name].append(of_self_play(behavior.trainer))
            return stats

        return noted

    for behavior in run.behaviors.values():
        behavior.trainer.update = noting(behavior, behavior.trainer.update)
    epochs = list(run)
    results = run.results()
    last = {
        name: [result.episodes, result.mean_reward or 0.0, result.steps, len(epochs)]
        for name, result in results.items()
    }
    np.savez(
        out / f"{config.stem}-{RANK}.npz",
        steps=np.array(steps),
        exchanges=np.array(exchanges),
        listening=np.array(open_addresses()),
        **{f"weights {name}": np.array(each) for name, each in weights.items()},
        **{f"games {name}": np.array(each) for name, each in games.items() if each},
        **{f"results {name}": np.array(each) for name, each in last.items()},
        **{
            f"stats {name} {tag}": np.array(value)
            for name, result in results.items()
            for tag, value in result.moving_averages.items()
        },
    )


def count_exchanges(ranks: TorchRanks, exchanges: list[int], place: list[int]) -> None:
    exchange = ranks._exchange

    def counted():
        exchanges[place[0]] += 1
        return exchange()

    ranks._exchange = counted


def open_addresses() -> int:
    """How many sockets of this process listen to other machines."""
    found = psutil.Process().net_connections("tcp")
    return sum(each.status == psutil.CONN_LISTEN and each.laddr.ip not in ("127.0.0.1", "::1") for each in found)


def of_self_play(trainer) -> str:
    """The self-play that all ranks agree on after an update: opponents of all environments, ratings, who learns."""
    state = trainer.state_dict()["self_play"]
    controller = trainer.controller
    members = {place: member["name"] for place, member in state["snapshots"].items()}
    opponents = [[members.get(str(place), place) for place in places] for places in state["assigned"].tolist()]
    return json.dumps({
        "opponents": opponents,
        "window": state["window"],
        "players": controller.log.names,
        "ratings": [controller.elo.rating(player) for player in range(len(controller.log.names))],
        "matches": controller.log.state_dict()["rows"]["count"].tolist(),
        "team": controller.learning.current,
        "changes": controller.learning.changes,
        "rated": controller.rated,
    })  # fmt: skip


if __name__ == "__main__":
    rlcore_torch.ranks.episodes.SECONDS = 3600.0
    for each in sys.argv[2:]:
        train(Path(each), Path(sys.argv[1]))
