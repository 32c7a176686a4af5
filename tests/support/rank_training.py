"""Sessions of torchrun with two ranks, and the same configurations in one process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import chdir
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from small_runs import DATA

SCRIPT = Path(__file__).with_name("train_in_ranks.py")
Arrays = Mapping[str, NDArray[np.float64]]

PPO = (DATA / "rank_ppo.yaml").read_text(encoding="utf-8")
SCALED = PPO.replace("{batch_size", "{normalize_rewards: true, batch_size")
PQN = PPO.replace("trainer_type: ppo", "trainer_type: pqn").replace("id: Pendulum-v1", "id: Acrobot-v1")
PQN = PQN.replace("num_epoch: 3, target_kl: 0.05", "num_epoch: 3, epsilon_steps: 1000")
SAC = (DATA / "rank_sac.yaml").read_text(encoding="utf-8")
TD3 = SAC.replace("trainer_type: sac", "trainer_type: td3").replace(
    "      save_replay", "      exploration_noise_type: ornstein_uhlenbeck\n      save_replay"
)
DQN = SAC.replace("trainer_type: sac", "trainer_type: dqn").replace(
    "      save_replay",
    "      epsilon_steps: 300\n      target_update_interval: 4\n      dueling: true\n      save_replay",
)
DQN = DQN.replace("id: Pendulum-v1", "id: Acrobot-v1")  # whose behavior is called Pendulum too
# The vectorized CartPole draws for all copies from one generator; with a wrapper, copies are stepped one by one.
POLES = DQN.replace(
    "id: Acrobot-v1, num_envs: 4}", "id: CartPole-v1, num_envs: 4, wrappers: [{name: RecordEpisodeStatistics}]}"
)
MEMORY = SAC.replace("normalize: true}", "normalize: true, memory: {memory_size: 8, sequence_length: 8, burn_in: 4}}")


def torchrun(
    arguments: Sequence[str | Path], where: Path, restarts: int = 0, ranks: int = 2, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run ``torchrun ARGUMENTS`` in ``where`` until it ends."""
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks),
        "--max-restarts", str(restarts), *map(str, arguments),
    ]  # fmt: skip
    environ = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    return subprocess.run(command, cwd=where, env=environ, capture_output=True, text=True, timeout=540, check=False)


def written(where: Path, name: str, rank: object) -> Arrays:
    """The numbers that the process ``rank`` wrote down about the configuration called ``name``."""
    with np.load(where / f"{name}-{rank}.npz") as file:
        return dict(file)


def train_both(where: Path, configs: Mapping[str, str], ranks: int = 2) -> Path:
    """Train ``configs`` in this process and in several ranks, in the directories ``one`` and ``two`` of ``where``."""
    from train_in_ranks import train  # imports PyTorch

    for kind in ("one", "two"):
        (where / kind).mkdir()
        for name, text in configs.items():
            (where / kind / f"{name}.yaml").write_text(f"checkpoint_settings: {{run_id: {name}}}\n{text}")
    with chdir(where / "one"):
        for name in configs:
            train(Path(f"{name}.yaml"), Path())
    ended = torchrun([SCRIPT, ".", *(f"{name}.yaml" for name in configs)], where / "two", ranks=ranks)
    assert ended.returncode == 0, ended.stderr
    return where
