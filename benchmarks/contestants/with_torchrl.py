"""TorchRL, resumed with ``Trainer.load_from_file`` of a unified checkpoint (``torchrl.checkpoint``).

``PPOTrainer`` saves policy, loss, optimizer, collector, replay buffer, logger and counters by itself; the random states
are a component that the user registers, as its documentation shows. The trainer's own period of 10,000 frames is kept
if a training has room for four of them; else it is a tenth of the training. The lines that a user adds to save and to
resume end with a comment.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import torch
from measured import Instrument, command_line
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.checkpoint import Checkpoint, GlobalRNGState
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer, SamplerWithoutReplacement
from torchrl.envs import GymEnv, RewardSum, StepCounter, TransformedEnv
from torchrl.modules import MLP, OneHotCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.record.loggers.tensorboard import TensorboardLogger
from torchrl.trainers.algorithms import PPOTrainer

BATCH = 250


def ppo(place: Path, steps: int, seed: int, instrument: Instrument) -> None:
    """PPO on CartPole-v1 with a linear learning rate."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - TorchRL saves the state of this generator
    torch.manual_seed(seed)
    env = TransformedEnv(GymEnv("CartPole-v1"), StepCounter()).append_transform(RewardSum())
    env.set_seed(seed)  # a collector resets its environment before its trainer seeds it
    hidden = {"num_cells": [64, 64], "activation_class": nn.Tanh}
    network = MLP(in_features=4, out_features=2, **hidden)
    actor = ProbabilisticActor(
        TensorDictModule(network, ["observation"], ["logits"]),
        in_keys=["logits"],
        spec=env.action_spec,
        distribution_class=OneHotCategorical,
        return_log_prob=True,
    )
    critic = ValueOperator(MLP(in_features=4, out_features=1, **hidden), ["observation"])
    loss = ClipPPOLoss(actor, critic)
    optimizer = torch.optim.Adam(loss.parameters(), lr=3e-4)
    rows = ReplayBuffer(storage=LazyTensorStorage(BATCH), sampler=SamplerWithoutReplacement(), batch_size=50)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps // BATCH)
    trainer = PPOTrainer(
        collector=Collector(env, actor, frames_per_batch=BATCH, total_frames=steps),
        total_frames=steps,
        frame_skip=1,
        optim_steps_per_batch=None,
        loss_module=loss,
        optimizer=optimizer,
        lr_scheduler=schedule,
        logger=TensorboardLogger("run", str(place)),
        replay_buffer=rows,
        progress_bar=False,
        seed=seed,
        log_interval=BATCH,
        checkpoint=Checkpoint(rng=GlobalRNGState()),  # save
        save_trainer_file=place / "checkpoint",  # save
        save_trainer_interval=10_000 if steps >= 40_000 else steps // 10,  # save
    )
    if (place / "checkpoint").exists():  # resume
        trainer.load_from_file(place / "checkpoint")  # resume
    instrument.began(trainer.collected_frames)
    trainer.train()
    instrument.end(
        weights=loss.state_dict(),
        optimizer=optimizer.state_dict()["state"],
        steps=trainer.collected_frames,
        updates=trainer._optim_count,
        rate=[group["lr"] for group in optimizer.param_groups],
    )


if __name__ == "__main__":
    _, place, steps, seed = command_line()
    ppo(place, steps, seed, Instrument(place))
