"""The pages for users of Stable-Baselines3 and Tianshou: what they show runs, and their tables leave nothing out."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest
import yaml
from pages import RunPage, run_python_of
from workspace import ROOT

from rlcore import load_config, load_plugins, read_document
from rlcore.settings.fields import FieldInfo
from rlcore_migrate.hints import ZOO_FILE, foreign_keys
from rlcore_ppo.settings import PPOSettings
from rlcore_sac.settings import SACSettings
from rlcore_td3.settings import TD3Settings
from rlcore_torch import NetworkSettings

pytestmark = pytest.mark.documentation

TABLES = yaml.safe_load((Path(__file__).parent / "data/arguments_of_others.yaml").read_text("utf-8"))


def rows_of(page: str, heading: str) -> list[list[str]]:
    section = (ROOT / page).read_text(encoding="utf-8").split(f"\n{heading}\n")[1].split("\n## ")[0]
    return [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| ")]


def words(cell: str) -> set[str]:
    return {word for code in re.findall(r"`([^`]+)`", cell) for word in re.findall(r"[A-Za-z_]\w*", code)}


@pytest.mark.parametrize("table", TABLES)
def test_every_argument_is_in_the_first_column(table: str) -> None:
    shown = TABLES[table]
    rows = rows_of(shown["page"], shown["heading"])
    assert set(shown["arguments"].split()) <= set.union(*(words(row[0]) for row in rows))


def test_every_key_that_messages_explain_is_in_a_first_column() -> None:
    page = "docs/how-to/stable-baselines3.md"
    keys = "docs/how-to/stable-baselines3-keys.md"
    columns = [
        row[0] for heading in ("## PPO", "## SAC", "## Keys of RL Zoo's files") for row in rows_of(keys, heading)
    ]
    columns += [row[0] for row in rows_of(page, "## Commands of RL Zoo")]
    of_calls = {"total_timesteps"}  # of learn(), in the table of calls
    assert foreign_keys()["stable_baselines3"].keys() - of_calls <= set.union(*map(words, columns))
    assert ZOO_FILE.count(page) == 1 and (ROOT / page).is_file()


def test_messages_name_keys_that_exist() -> None:
    keys = {**FieldInfo.fields_of(PPOSettings), **FieldInfo.fields_of(SACSettings), **FieldInfo.fields_of(TD3Settings)}
    for message in foreign_keys()["stable_baselines3"].values():
        assert set(re.findall(r"hyperparameters\.(\w+)", message)) <= keys.keys(), message
        assert set(re.findall(r"network_settings\.(\w+)", message)) <= FieldInfo.fields_of(NetworkSettings).keys(), (
            message
        )
        assert set(re.findall(r"(\w+): (?:constant|linear|false)", message)) - {"console"} <= keys.keys(), message


@pytest.mark.parametrize(("heading", "settings"), [("## PPO", PPOSettings), ("## SAC", SACSettings)])
def test_our_keys_exist(heading: str, settings: type) -> None:
    """And their defaults are those of the last column, where it has numbers."""
    keys = {**FieldInfo.fields_of(settings), **FieldInfo.fields_of(NetworkSettings)}
    for row in rows_of("docs/how-to/stable-baselines3-keys.md", heading)[1:]:
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
    converted = load_config(read_document(tmp_path / "converted.yaml"), load_plugins()).behaviors["CartPole"]
    h = attrs.evolve(h, beta_schedule="constant")  # of a beta that is 0
    by_hand = attrs.evolve(config.behaviors["CartPole"], hyperparameters=h, summary_freq=converted.summary_freq)
    assert by_hand == converted
    assert run_python_of("docs/how-to/stable-baselines3.md")["policy"].behavior.discrete == (2,)


def test_the_page_of_tianshou_trains(run_page: RunPage) -> None:
    assert (run_page("docs/how-to/tianshou.md") / "results/cartpole/result.json").is_file()
    assert run_python_of("docs/how-to/tianshou.md")["epoch"].epoch == 2
