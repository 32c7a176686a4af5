"""The pages for users of Stable-Baselines3 and Tianshou: what they show runs, and their tables leave nothing out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import RunPage, run_python_of
from workspace import ROOT

from rlcore import load_config, load_plugins, read_document
from rlcore.config.hints import ZOO_FILE, foreign_keys
from rlcore.settings.fields import settings_fields
from rlcore_ppo.settings import PPOSettings
from rlcore_sac.settings import SACSettings
from rlcore_torch import NetworkSettings

pytestmark = pytest.mark.documentation

# Arguments of the constructors, of Stable-Baselines3 2.7 and Tianshou 2.
OF_PPO = (
    "policy learning_rate n_steps batch_size n_epochs gamma gae_lambda clip_range clip_range_vf normalize_advantage "
    "ent_coef vf_coef max_grad_norm use_sde sde_sample_freq rollout_buffer_class rollout_buffer_kwargs target_kl "
    "stats_window_size tensorboard_log policy_kwargs verbose seed device"
)
OF_SAC = (
    "learning_rate buffer_size learning_starts batch_size tau gamma train_freq gradient_steps action_noise "
    "replay_buffer_class replay_buffer_kwargs optimize_memory_usage n_steps ent_coef target_update_interval "
    "target_entropy use_sde sde_sample_freq use_sde_at_warmup policy stats_window_size tensorboard_log policy_kwargs "
    "verbose seed device"
)
OF_TIANSHOU = (
    "max_epochs epoch_num_steps test_collector test_step_num_episodes training_fn test_fn stop_fn compute_score_fn "
    "save_best_fn save_checkpoint_fn resume_from_log multi_agent_return_reduction logger show_progress "
    "collection_step_num_env_steps collection_step_num_episodes test_in_training batch_size "
    "update_step_num_repetitions update_step_num_gradient_steps_per_sample"
)
TABLES = {
    "Stable-Baselines3, PPO": ("docs/how-to/stable-baselines3.md", "## PPO", OF_PPO),
    "Stable-Baselines3, SAC": ("docs/how-to/stable-baselines3.md", "## SAC", OF_SAC),
    "Tianshou, trainers": ("docs/how-to/tianshou.md", "## Trainers", OF_TIANSHOU),
}


def rows_of(page: str, heading: str) -> list[list[str]]:
    section = (ROOT / page).read_text(encoding="utf-8").split(f"\n{heading}\n")[1].split("\n## ")[0]
    return [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| ")]


def words(cell: str) -> set[str]:
    return {word for code in re.findall(r"`([^`]+)`", cell) for word in re.findall(r"[A-Za-z_]\w*", code)}


@pytest.mark.parametrize("table", TABLES)
def test_every_argument_is_in_the_first_column(table: str) -> None:
    page, heading, arguments = TABLES[table]
    assert set(arguments.split()) <= set.union(*(words(row[0]) for row in rows_of(page, heading)))


def test_every_key_that_messages_explain_is_in_a_first_column() -> None:
    page = "docs/how-to/stable-baselines3.md"
    columns = [row[0] for heading in ("## PPO", "## SAC", "## Commands of RL Zoo") for row in rows_of(page, heading)]
    of_calls = {"total_timesteps"}  # of learn(), in the table of calls
    assert foreign_keys()["stable_baselines3"].keys() - of_calls <= set.union(*map(words, columns))
    assert ZOO_FILE.count(page) == 1 and (ROOT / page).is_file()


def test_messages_name_keys_that_exist() -> None:
    keys = {**settings_fields(PPOSettings), **settings_fields(SACSettings)}
    for message in foreign_keys()["stable_baselines3"].values():
        assert set(re.findall(r"hyperparameters\.(\w+)", message)) <= keys.keys(), message
        assert set(re.findall(r"network_settings\.(\w+)", message)) <= settings_fields(NetworkSettings).keys(), message
        assert set(re.findall(r"(\w+): (?:constant|linear|false)", message)) - {"console"} <= keys.keys(), message


@pytest.mark.parametrize(("heading", "settings"), [("## PPO", PPOSettings), ("## SAC", SACSettings)])
def test_our_keys_exist(heading: str, settings: type) -> None:
    """And their defaults are those of the last column, where it has numbers."""
    keys = {**settings_fields(settings), **settings_fields(NetworkSettings)}
    for row in rows_of("docs/how-to/stable-baselines3.md", heading)[1:]:
        ours = [name for name in re.findall(r"`([a-z_]+)(?:: [\w.]+)?`", row[2]) if name not in ("n_steps", "pi", "vf")]
        known = {"gradient_steps", "train_freq", "time_horizon", "none", "constant", "network_settings"}
        assert set(ours) - known <= keys.keys(), row
        number = re.fullmatch(r" (-?[\d.,]+(?:e-?\d+)?)(?:, linear.*)? ", row[3])
        if number and ours and ours[0] in keys and "x" not in row[3]:
            assert float(number[1].replace(",", "")) == keys[ours[0]].default, row


def test_the_page_of_stable_baselines3_trains(run_page: RunPage, tmp_path: Path) -> None:
    result = run_page("docs/how-to/stable-baselines3.md") / "results/cartpole/result.json"
    assert result.is_file()
    config = load_config(read_document(tmp_path / "cartpole.yaml"), load_plugins())
    h = config.behaviors["CartPole"].hyperparameters
    assert h.buffer_size == 32 * config.environment.num_envs and h.final_epsilon == 0.0
    assert run_python_of("docs/how-to/stable-baselines3.md")["policy"].behavior.discrete == (2,)


def test_the_page_of_tianshou_trains(run_page: RunPage) -> None:
    assert (run_page("docs/how-to/tianshou.md") / "results/cartpole/result.json").is_file()
    assert run_python_of("docs/how-to/tianshou.md")["epoch"].epoch == 2
