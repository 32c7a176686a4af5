"""Plugins that do not declare that they work in several ranks are refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rlcore import ConfigError, TrainerWrapper
from rlcore.run.prepare import refuse_wrappers


class Silent(TrainerWrapper):
    """Says nothing about ranks."""


class Declaring(TrainerWrapper):
    learns_in_ranks = True


class Inner:
    """Stands for a trainer, whose record was checked before."""


@pytest.mark.parametrize("wrap", [Silent, lambda inner: Declaring(Silent(inner))], ids=["outside", "inside"])
def test_a_trainer_around_another_one_must_declare_ranks(wrap: Any) -> None:
    expected = "a plugin put a Silent around the trainer, which does not declare that it learns in several ranks"
    with pytest.raises(ConfigError, match=re.escape(expected)) as refused:
        refuse_wrappers(wrap(Inner()), "Player")
    assert refused.value.key == ("behaviors", "Player")
    refuse_wrappers(Declaring(Declaring(Inner())), "Player")  # type: ignore[arg-type]
    refuse_wrappers(Inner(), "Player")  # type: ignore[arg-type]


BLOCK = """
import attrs
from rlcore import BehaviorSection, hookimpl

@attrs.frozen
class Settings:
    pass

@hookimpl
def rlcore_config_sections():
    return [BehaviorSection(name="cheering", target="cheerers:Settings", summary="cheers", ranks=RANKS)]
"""


@pytest.mark.parametrize("ranks", [False, True])
def test_a_block_of_a_plugin_must_declare_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranks: bool) -> None:
    from rlcore.run.prepare import prepare, refuse_in_ranks

    (tmp_path / "cheerers.py").write_text(BLOCK.replace("RANKS", str(ranks)))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text(
        "plugins: {local: [cheerers.py]}\n"
        "environment: {type: gymnasium, id: CartPole-v1, num_envs: 4}\n"
        "behaviors: {CartPole: {trainer_type: ppo, max_steps: 10, cheering: {}}}\n"
    )
    run = prepare(tmp_path / "config.yaml", None)
    config, plugins = run.config, run.plugins
    if ranks:
        refuse_in_ranks(config, plugins, False, 2)
        return
    with pytest.raises(ConfigError, match=r"'cheering'.* does not declare that it learns in several ranks") as refused:
        refuse_in_ranks(config, plugins, False, 2)
    assert refused.value.key == ("behaviors", "CartPole", "cheering")
