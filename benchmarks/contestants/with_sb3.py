"""Stable-Baselines3 and sb3-contrib, resumed as their documentation says, with everything that they can save.

``CheckpointCallback(save_replay_buffer=True, save_vecnormalize=True)`` every 1,000 steps, as in the guide's example,
if a training has room for four of them, else after each tenth of it;
then ``load`` with the environment, ``load_replay_buffer``, ``VecNormalize.load``, and ``learn`` of the steps that are
left with ``reset_num_timesteps=False``. The lines that a user adds to save and to resume end with a comment.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from measured import Instrument, command_line
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.callbacks import CheckpointCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecNormalize


def ppo(place: Path, steps: int, seed: int, instrument: Instrument) -> None:
    """PPO on CartPole-v1 with the library's values, a linear learning rate and VecNormalize."""
    venv = make_vec_env("CartPole-v1", seed=seed)
    env = VecNormalize(venv)
    rate = LinearSchedule(3e-4, 0.0, 1.0)
    log = str(place / "tensorboard")
    model = PPO("MlpPolicy", env, learning_rate=rate, seed=seed, device="cpu", tensorboard_log=log)
    saved = sorted(place.glob("run_vecnormalize_*_steps.pkl"), key=lambda path: int(path.stem.split("_")[2]))  # resume
    if saved:  # resume
        env = VecNormalize.load(str(saved[-1]), venv)  # resume
        model = PPO.load(place / saved[-1].name.replace("vecnormalize_", "").replace("pkl", "zip"), env)  # resume
    keep = CheckpointCallback(period(steps), str(place), "run", save_vecnormalize=True)  # save
    instrument.began(model.num_timesteps)
    left = steps - model.num_timesteps  # resume
    model.learn(left, callback=keep, reset_num_timesteps=not saved, tb_log_name="run")  # resume
    end(instrument, model, env)


def off_policy(kind: Any, place: Path, steps: int, seed: int, instrument: Instrument) -> None:
    """SAC or TQC on Pendulum-v1 with the library's values and VecNormalize."""
    venv = make_vec_env("Pendulum-v1", seed=seed)
    env = VecNormalize(venv)
    model = kind("MlpPolicy", env, seed=seed, device="cpu", tensorboard_log=str(place / "tensorboard"))
    saved = sorted(place.glob("run_vecnormalize_*_steps.pkl"), key=lambda path: int(path.stem.split("_")[2]))  # resume
    if saved:  # resume
        env = VecNormalize.load(str(saved[-1]), venv)  # resume
        model = kind.load(place / saved[-1].name.replace("vecnormalize_", "").replace("pkl", "zip"), env)  # resume
        model.load_replay_buffer(place / saved[-1].name.replace("vecnormalize", "replay_buffer"))  # resume
    keep = CheckpointCallback(period(steps), str(place), "run", save_replay_buffer=True, save_vecnormalize=True)  # save
    instrument.began(model.num_timesteps)
    left = steps - model.num_timesteps  # resume
    model.learn(left, callback=keep, reset_num_timesteps=not saved, tb_log_name="run")  # resume
    end(instrument, model, env)


def period(steps: int) -> int:
    """Steps between two checkpoints; a training without one before a kill would start again and equal the first."""
    return 1000 if steps >= 4000 else steps // 10


def end(instrument: Instrument, model: Any, env: VecNormalize) -> None:
    rows = None
    if getattr(model, "replay_buffer", None) is not None:
        held = model.replay_buffer.size()
        names = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
        rows = {name: getattr(model.replay_buffer, name)[:held] for name in names}
    tensors = model.get_parameters()
    networks = {name: state for name, state in tensors.items() if "optimizer" not in name}
    temperature = getattr(model, "log_ent_coef", None)  # of SAC and TQC; get_parameters leaves it out
    statistics = {name: vars(getattr(env, name)) for name in ("obs_rms", "ret_rms")}
    instrument.end(
        weights={**networks, "log_ent_coef": temperature},
        optimizer={name: state for name, state in tensors.items() if "optimizer" in name},
        steps=model.num_timesteps,
        updates=model._n_updates,
        normalizer={**statistics, "running_return": env.returns},
        replay=rows,
        rate=model.lr_schedule(model._current_progress_remaining),
    )


def main() -> None:
    task, place, steps, seed = command_line()
    instrument = Instrument(place)
    if task == "ppo":
        ppo(place, steps, seed, instrument)
    elif task == "sac":
        off_policy(SAC, place, steps, seed, instrument)
    else:
        from sb3_contrib import TQC

        off_policy(TQC, place, steps, seed, instrument)


if __name__ == "__main__":
    main()
