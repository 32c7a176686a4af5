"""The recipe of CleanRL's page "Resume training" in a small PPO on CartPole-v1.

CleanRL is not a package, and its scripts have no option to resume. This loop was written for the contest with the
values of CleanRL's ``ppo.py`` and one environment; the lines that save and resume are those of the page
(https://docs.cleanrl.dev/advanced/resume-training/). The page stores ``agent.pt`` and the summary of a run at Weights
& Biases. A folder takes its place here: ``agent.pt`` whenever the page saves it, and ``summary.json`` with what was
logged last. The page's own period of 50 updates is kept if a training has room for four of them.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
from measured import Instrument, command_line
from torch import nn
from torch.distributions import Categorical
from torch.utils.tensorboard import SummaryWriter

LENGTH = 128
EPOCHS = 4
MINIBATCHES = 4
RATE = 2.5e-4


def layer(inputs: int, outputs: int, gain: float = 2**0.5) -> nn.Linear:
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, gain)
    nn.init.zeros_(linear.bias)
    return linear


class Agent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.critic = nn.Sequential(layer(4, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, 1, 1.0))
        self.actor = nn.Sequential(layer(4, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, 2, 0.01))


def ppo(place: Path, steps: int, seed: int, instrument: Instrument) -> None:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - as CleanRL's scripts do
    torch.manual_seed(seed)
    updates = steps // LENGTH
    frequency = 50 if updates >= 200 else max(1, updates // 10)  # save
    env = gym.make("CartPole-v1")
    agent = Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=RATE, eps=1e-5)
    writer = SummaryWriter(str(place / "tensorboard"))
    step = 0
    first = 1
    weights = 0
    if (place / "agent.pt").exists():  # resume
        first = json.loads((place / "summary.json").read_text())["charts/update"] + 1  # resume
        step = first * LENGTH  # resume
        agent.load_state_dict(torch.load(place / "agent.pt"))  # resume
        agent.eval()  # resume
        weights = json.loads((place / "weights.json").read_text())
    instrument.began((first - 1) * LENGTH, weights)
    observation, _ = env.reset(seed=seed)
    for update in range(first, updates + 1):
        optimizer.param_groups[0]["lr"] = RATE * (1.0 - (update - 1.0) / updates)
        rows = []
        for _ in range(LENGTH):
            step += 1
            seen = torch.as_tensor(observation)
            with torch.no_grad():
                choices = Categorical(logits=agent.actor(seen))
                value = agent.critic(seen)
            action = choices.sample()
            observation, reward, terminated, truncated, _ = env.step(action.item())
            ended = terminated or truncated
            rows.append((seen, action, choices.log_prob(action), value[0], float(reward), float(ended)))
            if ended:
                observation, _ = env.reset()
        with torch.no_grad():
            following = agent.critic(torch.as_tensor(observation))[0]
        loss = learn(agent, optimizer, rows, following)
        writer.add_scalar("losses/loss", loss, step)
        writer.add_scalar("charts/learning_rate", optimizer.param_groups[0]["lr"], step)
        writer.add_scalar("charts/update", update, step)
        (place / "summary.json").write_text(json.dumps({"charts/update": update}))  # save
        if update % frequency == 0:  # save
            torch.save(agent.state_dict(), place / "agent.pt")  # save
            (place / "weights.json").write_text(json.dumps(update * LENGTH))
    writer.close()
    instrument.end(
        weights=agent.state_dict(),
        optimizer=optimizer.state_dict()["state"],
        steps=step,
        updates=updates,
        rate=optimizer.param_groups[0]["lr"],
    )


def learn(agent: Agent, optimizer: torch.optim.Optimizer, rows: list[tuple], following: torch.Tensor) -> float:
    """The update of PPO: generalized advantages, the clipped policy loss, the value loss and an entropy bonus."""
    columns = zip(*rows, strict=True)
    observations, actions, old, values, rewards, ends = (
        torch.stack(column) if torch.is_tensor(column[0]) else torch.tensor(column) for column in columns
    )
    advantages = torch.zeros(LENGTH)
    ahead = torch.zeros(())
    for place in reversed(range(LENGTH)):
        goes_on = 1.0 - ends[place]
        delta = rewards[place] + 0.99 * following * goes_on - values[place]
        ahead = delta + 0.99 * 0.95 * goes_on * ahead
        advantages[place] = ahead
        following = values[place]
    returns = advantages + values
    loss = torch.zeros(())
    for _ in range(EPOCHS):
        for chosen in np.random.permutation(LENGTH).reshape(MINIBATCHES, -1):  # noqa: NPY002
            choices = Categorical(logits=agent.actor(observations[chosen]))
            ratio = (choices.log_prob(actions[chosen]) - old[chosen]).exp()
            better = advantages[chosen]
            better = (better - better.mean()) / (better.std() + 1e-8)
            policy = torch.max(-better * ratio, -better * ratio.clamp(0.8, 1.2)).mean()
            error = (agent.critic(observations[chosen])[:, 0] - returns[chosen]).square().mean() / 2
            loss = policy + 0.5 * error - 0.01 * choices.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
    return loss.item()


if __name__ == "__main__":
    _, place, steps, seed = command_line()
    ppo(place, steps, seed, Instrument(place))
