"""A stand-in for the plugin facade with a trainer, rewards, writers, environments and a section of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import pytest

from rlcore import ConfigError, Document, Plugin, Plugins, apply_overrides, load_config
from rlcore.config.reading import parse_document
from rlcore.records import (
    BehaviorSection,
    ConfigSection,
    CurriculumSpec,
    EnvironmentSpec,
    ExporterSpec,
    KeyHints,
    Record,
    RewardProviderSpec,
    StatsWriterSpec,
    TrainerSpec,
)
from rlcore.settings import (
    CurriculumSettings,
    EnvironmentSettings,
    ExportSettings,
    RewardSettings,
    RunConfig,
    SettingError,
    setting,
)
from rlcore_torch import ActionDistributionSpec, EncoderSpec, NetworkSettings


@attrs.frozen(kw_only=True)
class PPOLike:
    """Settings with every kind of field, and a rule between two of them."""

    batch_size: int = setting(1024, "Rows of a minibatch.", minimum=1)
    buffer_size: int = setting(10240, "Agent steps between updates.", minimum=1)
    learning_rate: float = setting(3e-4, "Step size.", exclusive_minimum=0)
    beta: float = setting(5e-3, "Entropy bonus.", minimum=0)
    epsilon: float = setting(0.2, "Clip range.", minimum=0)
    lambd: float = setting(0.95, "GAE lambda.", minimum=0, maximum=1)
    num_epoch: int = setting(3, "Passes over the buffer.", minimum=1)
    shared_critic: bool = setting(False, "One body for both heads.")
    initial_log_std: float = setting(0.0, "Logarithm of the first standard deviation.")
    learning_rate_schedule: str = setting("linear", "Schedule.", choices=("linear", "constant"))
    beta_schedule: str | None = setting(None, "Schedule; unset copies learning_rate_schedule.")
    epsilon_schedule: str | None = setting(None, "Schedule; unset copies learning_rate_schedule.")
    widths: tuple[int, ...] = setting((64, 64), "A list.")
    target_kl: float | None = setting(None, "Stop early.", exclusive_minimum=0)

    def __attrs_post_init__(self) -> None:
        if self.batch_size > self.buffer_size:
            problem = f"must be at most buffer_size ({self.buffer_size})"
            raise SettingError("batch_size", problem, others=("buffer_size",))
        for name in ("beta_schedule", "epsilon_schedule"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, self.learning_rate_schedule)


@attrs.frozen(kw_only=True)
class OtherTrainer:
    batch_size: int = setting(128, "Rows of a minibatch.", minimum=1)
    tau: float = setting(0.005, "Target update.", minimum=0, maximum=1)
    extras: dict[str, int] = setting(factory=lambda: {"kept": 1}, description="A mapping.")


@attrs.frozen(kw_only=True)
class BonusReward(RewardSettings):
    scale: float = setting(description="Must be given.")
    network_settings: NetworkSettings = setting(factory=NetworkSettings, description="Network.")


@attrs.frozen(kw_only=True)
class FileWriter:
    path: str = setting("metrics.jsonl", "File.")


@attrs.frozen(kw_only=True)
class GridOptions:
    size: int = setting(3, "Side of the grid.", minimum=2)


@attrs.frozen(kw_only=True)
class GridRoute:
    cell: int | None = setting(None, "Which cell it is written to.", minimum=0)
    wall: str | None = setting(None, "Which wall it is written to.")

    def __attrs_post_init__(self) -> None:
        if (self.cell is None) == (self.wall is None):
            raise ConfigError("give either cell or wall")


@attrs.frozen(kw_only=True)
class WalledLike(EnvironmentSettings):
    """The environment block of a type with keys of its own there."""

    walls: list[str] = setting(factory=list, description="Where walls are.", choices=("north", "south"))
    doors: dict[str, int] = setting(factory=dict, description="Widths of doors by wall.")


@attrs.frozen(kw_only=True)
class DepthLike:
    """Settings of an encoder or a distribution."""

    channels: int = setting(8, "Channels of the first layer.", minimum=1)


@attrs.frozen(kw_only=True)
class AcmeSection:
    project: str | None = setting(None, "Project.")
    ratio: float = setting(0.5, "Ratio.", minimum=0, maximum=1)
    teams: dict[str, int] = setting(factory=dict, description="Teams by name.")
    token: str | None = setting(None, "A secret.", secret=True)


@attrs.frozen(kw_only=True)
class ChipLike(ExportSettings):
    bits: int = setting(8, "Bits of a weight.", minimum=1, maximum=32)


@attrs.frozen(kw_only=True)
class LessonsLike(CurriculumSettings):
    """Settings of the curriculum that a list of lessons becomes."""

    lessons: list[dict[str, Any]] = setting(description="The lessons.")


@attrs.frozen(kw_only=True)
class WheelLike(CurriculumSettings):
    """Another curriculum, whose settings depend on the behaviors."""

    spokes: list[int] = setting(factory=list, description="Their lengths.", minimum=1)
    behavior: str = setting("B", "Whose wheel it is.")

    def problems(self, config: Any, plugins: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
        if self.behavior not in config.behaviors:
            yield ("behavior",), f"unknown behavior {self.behavior!r}"
        for index, length in enumerate(self.spokes):
            if length > 9:
                yield ("spokes", index), "is longer than 9"


# The module that the records of FakePlugins name.
class NoHints:
    """Says nothing else of what is refused."""

    def __init__(self, data: Any, plugins: Any) -> None:
        """Any configuration."""

    def message(self, path: Any, problem: str, unknown: bool) -> str:
        return problem


sys.modules["fake"] = fake = ModuleType("fake")
fake.NoHints = NoHints  # type: ignore[attr-defined]
for _cls in (PPOLike, OtherTrainer, BonusReward, FileWriter, GridOptions, GridRoute, DepthLike, AcmeSection):
    setattr(fake, _cls.__name__, _cls)
for _cls in (ChipLike, LessonsLike, WheelLike, WalledLike):
    setattr(fake, _cls.__name__, _cls)


def _trainer(name: str, settings: str, **has: bool) -> TrainerSpec:
    network = "rlcore_torch:NetworkSettings"
    return TrainerSpec(name=name, target="fake:Trainer", settings=f"fake:{settings}", network=network, **has)


class FakePlugins(Plugins):
    """Plugins that are these records, and call no hooks."""

    def __init__(self) -> None:
        super().__init__()
        self._records: list[Record] = [
            _trainer("ppo", "PPOLike", behavioral_cloning=True, memory=True, critic=True, action_distributions=True),
            _trainer("other", "OtherTrainer"),
            RewardProviderSpec(name="extrinsic", target="fake:Extrinsic", settings="rlcore.settings:ExtrinsicSettings"),
            RewardProviderSpec(name="bonus", target="fake:Bonus", settings="fake:BonusReward"),
            StatsWriterSpec(name="jsonl", target="fake:Writer", settings="fake:FileWriter"),
            StatsWriterSpec(name="console", target="fake:Console"),
            EnvironmentSpec(name="gymnasium", target="fake:Gym"),
            EnvironmentSpec(name="lone", target="fake:Lone", names_behaviors=False),
            EnvironmentSpec(name="grid", target="fake:Grid", settings="fake:GridOptions", parameters="fake:GridRoute"),
            EnvironmentSpec(name="walled", target="fake:Walled", block="fake:WalledLike"),
            CurriculumSpec(name="lessons", target="fake:Lessons", settings="fake:LessonsLike"),
            CurriculumSpec(name="wheel", target="fake:Wheel", settings="fake:WheelLike"),
            ExporterSpec(name="chip", target="fake:Chip", settings="fake:ChipLike", suffix=".bin", summary="for chips"),
            ExporterSpec(name="flash", target="fake:Flash", suffix=".bin", summary="for flash memories"),
            ExporterSpec(name="lonely", target="fake:Lonely", settings="fake:AcmeSection", suffix=".lonely"),
            EncoderSpec(name="auto", target="fake:Auto", kinds={"image"}),
            EncoderSpec(name="simple", target="fake:Simple", kinds={"image"}),
            EncoderSpec(name="deep", target="fake:Deep", settings="fake:DepthLike", kinds={"image", "vector"}),
            ActionDistributionSpec(name="gaussian", target="fake:Gaussian", initial_log_std=True),
            ActionDistributionSpec(name="mixture", target="fake:Mixture", settings="fake:DepthLike"),
            BehaviorSection(
                name="behavioral_cloning",
                target="rlcore_torch.settings:BehavioralCloningSettings",
                summary="Imitation.",
            ),
            BehaviorSection(name="league", target="fake:AcmeSection", summary="Acme's league."),
            ConfigSection(name="acme", target="fake:AcmeSection", summary="Acme's block."),
            KeyHints(
                name="migrate",
                target="fake:NoHints",
                rewrites="rlcore_migrate.mlagents_keys:rewrite",
                accepts="rlcore_migrate.mlagents_keys:ACCEPTED",
            ),
            ConfigSection(name="torch_settings", target="rlcore_torch:TorchSettings", summary="Of PyTorch."),
        ]

    def records(self, kind: str) -> tuple[Record, ...]:
        plugin = Plugin("fake", "fake", "rlcore-fake", "1.0")
        return tuple(attrs.evolve(record, plugin=plugin) for record in self._records if record.kind == kind)

    def record_of_kind(self, kind: str, reference: str) -> Record:
        return self.record({record.kind: type(record) for record in self._records}[kind], reference)

    @property
    def kinds(self) -> set[str]:
        return {record.kind for record in self._records}


@pytest.fixture
def plugins() -> Any:
    return FakePlugins()


@pytest.fixture(scope="session")
def plugins_once() -> Any:
    """For hypothesis, which refuses fixtures that are made again for each example."""
    return FakePlugins()


Load = Callable[..., RunConfig]


@pytest.fixture
def load(plugins: Any) -> Load:
    """Loads YAML text as a file called ``c.yaml``."""

    def load_text(text: str, sets: Any = (), flags: Any = None) -> RunConfig:
        return load_config(apply_overrides(parse_document(text, "c.yaml"), sets, flags), plugins)

    return load_text


@pytest.fixture
def errors(load: Load) -> Callable[..., list[str]]:
    """The messages of a configuration that must be refused."""

    def messages(text: str, sets: Any = (), flags: Any = None) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            load(text, sets, flags)
        return list(getattr(caught.value, "messages", (str(caught.value),)))

    return messages


@pytest.fixture
def sample() -> Document:
    """A configuration as ML-Agents 1.1.0 wrote it."""
    path = Path(__file__).parent / "data" / "mlagents_configuration.yaml"
    return parse_document(path.read_text(), "configuration.yaml")
