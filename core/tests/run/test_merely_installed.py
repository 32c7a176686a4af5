"""A plugin that is merely installed changes nothing of a run: not its files, its promise, nor whether it starts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import ConfigErrors, PluginError, Run
from rlcore.storage.checkpoint import load_checkpoint
from rlcore_devkit.fixtures import InstallPlugin, RunRlcore, installed_plugin

__all__ = ["installed_plugin"]

RESUME = {"checkpoint_settings.resume": True}
STUBS = Path(__file__).parent / "stub_plugin.py"

PRICING = """
import attrs
from rlcore import ConfigSection, StatsWriterSpec, hookimpl, setting

@hookimpl
def rlcore_config_sections():
    return [ConfigSection(name="pricing", target=__name__ + ":Pricing", affects_learning=AFFECTS)]

@hookimpl
def rlcore_stats_writers():
    return [StatsWriterSpec(name="ledger", target=__name__ + ":Ledger")]

@attrs.frozen(kw_only=True)
class Pricing:
    rate: float = setting(1.0, "Rate.")

class Ledger:
    def __init__(self, settings, run): pass
    def write(self, behavior, step, stats): pass
    def close(self): pass
"""
AROUND = """
import attrs
from rlcore import ConfigSection, hookimpl, setting

@hookimpl
def rlcore_config_sections():
    return [ConfigSection(name="around", target=__name__ + ":Around")]

@attrs.frozen(kw_only=True)
class Around:
    noise: float = setting(0.0, "Noise.")

@hookimpl(wrapper=True)
def rlcore_create_environment():
    return (yield)
"""
BROKEN = """
from rlcore import ConfigSection, hookimpl
@hookimpl
def rlcore_config_sections():
    return [ConfigSection(name="broken", target="nothing_here:Block")]
"""
REWARD = """
from rlcore import RewardProviderSpec, hookimpl
@hookimpl
def rlcore_reward_providers():
    return [RewardProviderSpec(name="extrinsic", target="nothing_here:Reward", settings="nothing_here:Block")]
"""
EMPTY = "from rlcore import hookimpl\n@hookimpl\ndef rlcore_stats_writers(): return []\n"


@pytest.fixture
def install(installed_plugin: InstallPlugin) -> Callable[..., Path]:
    """``install("pricing", PRICING)``: the directory to delete for an uninstallation."""

    def make(name: str, source: str, affects: bool = False, distribution: str = "") -> Path:
        text = source.replace("AFFECTS", str(affects))
        return installed_plugin(name, distribution or f"acme-{name}", "1.0", text).directory

    return make


@pytest.fixture
def train(write: Any, run_rlcore: RunRlcore, files: Any) -> Callable[..., Any]:
    """``train("--run-id", "a")``: the command ``rlcore run`` of a configuration for which installed plugins are on."""

    def make(*words: Any, changes: dict[str, Any] | None = None) -> Any:
        file = write({"plugins": {"autoload": True, "local": [str(STUBS)]}, **(changes or {})})
        return run_rlcore("run", file, *words)

    return make


def written(run: Path) -> dict[str, Any]:
    return dict(yaml.safe_load((run / "configuration.yaml").read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("changes", "block", "listed"),
    [
        ({}, None, {"writer": ["rlcore/console"]}),
        ({"pricing": {"rate": 1}}, {"rate": 1.0}, {"section": ["acme-pricing/pricing"], "writer": ["rlcore/console"]}),
        ({"pricing": {}}, {"rate": 1.0}, {"section": ["acme-pricing/pricing"], "writer": ["rlcore/console"]}),
        (
            {"stats": {"ledger": {}}},  # the plugin takes part with its writer, and its block is written whole
            {"rate": 1.0},
            {"section": ["acme-pricing/pricing"], "writer": ["acme-pricing/ledger"]},
        ),
    ],
)
def test_the_block_of_a_plugin_is_written_if_it_was_given_or_the_plugin_took_part(
    install: Any, train: Any, files: Any, changes: Any, block: Any, listed: Any
) -> None:
    install("pricing", PRICING)
    stats = {"stats": {"console": {}}}
    assert (
        train(
            changes={"behaviors": {"Agent": {"trainer_type": "numpy", "max_steps": 60}}, **stats, **changes}
        ).exit_code
        == 0
    )
    config = written(files().path)
    assert config.get("pricing") == block
    assert config["plugins"]["optional"] | {"exporter": []} == {**listed, "exporter": []}
    assert config["plugins"]["chosen"] == {
        "environment": ["stub_plugin/corridor"], "reward": ["rlcore/extrinsic"], "trainer": ["stub_plugin/numpy"],
        "section": ["stub_plugin/torch_settings"],
    }  # fmt: skip


def test_the_block_of_a_plugin_that_only_wraps_a_factory_is_written(install: Any, train: Any, files: Any) -> None:
    install("around", AROUND)
    assert train().exit_code == 0
    assert written(files().path)["around"] == {"noise": 0.0}
    assert written(files().path)["plugins"]["chosen"]["section"] == [
        "acme-around/around",
        "stub_plugin/torch_settings",
    ]


def test_a_resume_and_a_rerun_leave_out_blocks_that_do_not_affect_learning(
    install: Any, train: Any, files: Any, run_rlcore: RunRlcore
) -> None:
    directory = install("pricing", PRICING)
    used = {"pricing": {"rate": 2.0}, "stats": {"ledger": {}, "console": False}}
    assert train(changes=used).exit_code == 0
    shutil.rmtree(directory)
    own = files().path / "configuration.yaml"
    more = ("--set", "behaviors.Agent.max_steps=300")
    for words in ((own, "--run-id", "again"), ("--resume", "--run-id", "run", "--results-dir", own.parent.parent)):
        done = run_rlcore("run", *words, *more)
        assert done.exit_code == 0, done.stderr
        for key, name in (("pricing", "pricing"), ("stats.ledger", "ledger")):
            left_out = f"{key}: left out, because acme-pricing/{name} is not there; nothing that the run learns depends"
            assert left_out in done.stderr
    done = train("--resume", changes={**used, "behaviors.Agent.max_steps": 400})  # the user's own file
    assert done.exit_code == 0 and "pricing: left out" in done.stderr
    refused = train("--run-id", "new", changes=used)  # nothing says that these are blocks of a plugin
    assert refused.exit_code == 2 and "pricing: unknown key" in refused.stderr


def test_a_block_that_affects_learning_is_required(install: Any, train: Any, run_rlcore: RunRlcore) -> None:
    directory = install("pricing", PRICING, affects=True)
    assert train(changes={"pricing": {"rate": 2.0}}).exit_code == 0
    shutil.rmtree(directory)
    refused = train("--resume", changes={"pricing": {"rate": 2.0}})
    assert refused.exit_code == 2 and "pricing: unknown key" in refused.stderr


@pytest.mark.parametrize(
    ("name", "source", "said"),
    [
        ("broken", BROKEN, "section 'broken' of plugin 'broken' (acme-broken 1.0) failed to import nothing_here"),
        (
            "bonus",
            REWARD,
            "reward provider 'extrinsic' means rlcore/extrinsic, although plugin 'bonus' (acme-bonus 1.0) has one too; "
            "write acme-bonus/extrinsic for the other",
        ),
        ("ppo", EMPTY, "2 plugins are named 'ppo': acme-ppo/ppo (1.0, acme_ppo_ppo_hooks) and rlcore-ppo/ppo"),
    ],
)
def test_a_run_goes_on_beside_a_plugin_that_is_broken_or_takes_a_name_and_names_it(
    install: Any, train: Any, name: str, source: str, said: str
) -> None:
    install(name, source)
    done = train()
    assert done.exit_code == 0 and f"warning: {said}" in done.stderr, done.stderr
    asked = train("-p", name, "--run-id", "asked")
    assert asked.exit_code == (0 if name == "bonus" else 4), asked.stderr


def test_two_sections_of_one_name_are_left_out_unless_one_is_asked_for(install: Any, train: Any, files: Any) -> None:
    for distribution in ("acme-one", "acme-two"):
        install(distribution.removeprefix("acme-"), PRICING, distribution=distribution)
    done = train()
    assert (
        done.exit_code == 0 and "'pricing' is provided by plugin 'one' (acme-one 1.0) and plugin 'two'" in done.stderr
    )
    assert train("-p", "one", "--run-id", "asked", "--set", "pricing.rate=2").exit_code == 0
    assert written(files("asked").path)["plugins"]["optional"]["section"] == ["acme-one/pricing"]
    assert train("--run-id", "unclear", "--set", "pricing.rate=2").exit_code == 4


def test_the_promise_depends_on_the_plugins_of_what_is_learned_alone(
    install: Any, make_run: Any, abandon: Any, files: Any
) -> None:
    on = {"plugins.autoload": True}
    run = make_run(on)
    next(run)
    abandon(run)
    saved = load_checkpoint(files().path / "checkpoints" / str(files().steps[-1]))["run"]["fingerprint"]["plugins"]
    assert saved.keys() == {"core", "stub_plugin"}
    install("pricing", PRICING, affects=True)
    resumed = make_run({**on, **RESUME})
    assert str(resumed.describe().resume) == "exact"
    resumed.close()
    install("around", AROUND)
    around = make_run({**on, **RESUME})
    promise = str(around.describe().resume)
    assert promise.startswith("statistical") and "plugin 'around' acme-around 1.0 instead of not loaded" in promise
    around.close()


TRAINER = """
from rlcore import TrainerSpec, hookimpl
@hookimpl
def rlcore_trainers():
    return [TrainerSpec(name="walker", target="stub_plugin:NumpyTrainer", settings="stub_plugin:NumpySettings")]
"""


def test_a_trainer_of_another_distribution_does_not_take_over_a_resumed_run(
    install: Any, train: Any, run_rlcore: RunRlcore, files: Any, make_run: Any
) -> None:
    walker = {"behaviors.Agent.trainer_type": "walker"}
    first = install("one", TRAINER)
    assert train(changes=walker).exit_code == 0
    assert written(files().path)["plugins"]["chosen"]["trainer"] == ["acme-one/walker"]
    install("two", TRAINER)
    more = {**walker, "behaviors.Agent.max_steps": 300}
    assert train("--resume", changes=more).exit_code == 0  # two have the name now, and the run knows which one it means
    shutil.rmtree(first)
    more["behaviors.Agent.max_steps"] = 400
    refused = train("--resume", changes=more)
    kept = "unknown trainer 'acme-one/walker'; the run used it under the name 'walker', and no other takes its place"
    assert refused.exit_code == 2 and kept in refused.stderr
    saved = files().path / "configuration.yaml"
    rerun = run_rlcore("run", saved, "--run-id", "again")
    assert rerun.exit_code == 2 and kept in rerun.stderr
    own_plugins = make_run({"plugins.autoload": True, **walker, "checkpoint_settings.run_id": "other"}).plugins
    with pytest.raises(PluginError, match="the run used acme-one/walker; write acme-two/walker to use the other one"):
        _resumed(saved, own_plugins)
    more["behaviors.Agent.trainer_type"] = "acme-two/walker"
    assert train("--resume", changes=more).exit_code == 0


def _resumed(configuration: Path, plugins: Any) -> None:
    config = yaml.safe_load(configuration.read_text(encoding="utf-8"))
    config["checkpoint_settings"]["resume"] = True
    Run(config, plugins)


def test_lists_of_records_are_checked(make_run: Any) -> None:
    with pytest.raises(ConfigErrors, match=r"plugins.chosen: trainer: 'ppo' must be DISTRIBUTION/NAME"):
        make_run({"plugins.chosen": {"trainer": ["ppo"]}})
