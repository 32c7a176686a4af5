"""The trainers and the recording format of this package keep the rules of every one; a broken rule is noticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from rlcore import Recording, RecordingAbout
from rlcore_devkit import OfflineTrainerConformance, PluginConformance, RecordingFormatConformance
from rlcore_offline.minari_format import MinariFormat


@pytest.mark.smoke
class TestPlugin(PluginConformance):
    plugin = "rlcore-offline/offline"


@pytest.mark.smoke
class TestMinari(RecordingFormatConformance):
    format = "rlcore-offline/minari"


@pytest.mark.smoke
class TestDemonstrations(RecordingFormatConformance):
    """A demonstration has no names of observations, and Unity's bounds of actions."""

    format = "mlagents"
    kinds = frozenset({"discrete", "branches", "masked"})

    def expected(self, recording: Recording) -> Recording:
        (seen,) = recording.behavior.observations
        behavior = attrs.evolve(recording.behavior, observations=(attrs.evolve(seen, name="observation"),))
        return attrs.evolve(
            recording, behavior=behavior, observations={"observation": recording.observations[seen.name]}
        )


@pytest.mark.smoke
class TestBC(OfflineTrainerConformance):
    trainer = "rlcore-offline/bc"
    hyperparameters = {"batch_size": 64, "learning_rate": 3e-3}
    settings = {"network_settings": {"hidden_units": 32, "num_layers": 1}}


@pytest.mark.smoke
class TestIQL(OfflineTrainerConformance):
    trainer = "iql"
    hyperparameters = TestBC.hyperparameters
    settings = {"network_settings": {"hidden_units": 32, "num_layers": 1, "normalize": True}}


MEMORY = {"memory_size": 16, "sequence_length": 8, "burn_in": 4}


@pytest.mark.learning
class TestBCWithMemory(OfflineTrainerConformance):
    trainer = "bc"
    hyperparameters = TestBC.hyperparameters
    settings = {"network_settings": {"hidden_units": 32, "num_layers": 1, "memory": MEMORY}}


@pytest.mark.learning
class TestIQLWithMemory(OfflineTrainerConformance):
    trainer = "iql"
    hyperparameters = TestBC.hyperparameters
    settings = {"network_settings": {"hidden_units": 32, "num_layers": 1, "memory": {**MEMORY, "type": "gru"}}}


# ---------------------------------------------------------------- trainers broken on purpose


def loses_its_optimizers(trainer: Any) -> None:
    load = trainer.load_state_dict
    fresh = trainer.state_dict()["optimizers"]
    trainer.load_state_dict = lambda state: load({**state, "optimizers": fresh})


def forgets_its_first_weights(trainer: Any) -> None:
    first = sum(float(each.detach().sum()) for each in trainer.model.parameters())
    update = trainer.update
    trainer.update = lambda: {**update(), "First": first}


class Conformance(OfflineTrainerConformance):
    trainer = "bc"
    hyperparameters = TestBC.hyperparameters
    settings = TestBC.settings
    learns_within = 60
    broken: Any = None

    def make(self, recording: Recording, seed: int = 1, *arguments: Any, **settings: Any) -> Any:
        made: Any = super().make(recording, seed, *arguments, **settings)
        type(self).broken(made)
        return made


EVERY_KIND = "test_learns_every_kind_of_action_it_declares_and_acts_in_the_environment"


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (loses_its_optimizers, "test_goes_on_from_its_state_as_if_never_stopped"),
        (forgets_its_first_weights, "test_goes_on_from_its_state_as_if_never_stopped"),
        (lambda trainer: setattr(trainer, "ready", lambda: False), EVERY_KIND),
        (lambda trainer: setattr(trainer, "update", dict), "test_learns_what_good_agents_did"),
    ],
)
def test_a_broken_trainer_is_noticed(tmp_path: Path, broken: Any, rule: str) -> None:
    conformance: Any = type("Broken", (Conformance,), {"broken": staticmethod(broken)})()
    conformance.directory = tmp_path
    with pytest.raises(AssertionError):
        getattr(conformance, rule)()


# ---------------------------------------------------------------- formats broken on purpose


def forgets_the_last_reward(self: Any, path: Path, name: str) -> Recording:
    whole = MinariFormat().read(path, name)
    whole.reward[-1] = 0.0
    return whole


def overwrites(self: Any, path: Path, behavior: Any, about: RecordingAbout) -> Any:
    if path.exists():
        path.rename(path.with_name("older"))
    return MinariFormat().writer(path, behavior, about)


AS_WRITTEN = "test_a_recording_is_read_as_it_was_written"


@pytest.mark.parametrize(
    ("broken", "rule", "arguments"),
    [
        ({"read": forgets_the_last_reward}, AS_WRITTEN, ("discrete", (3, 1, 4))),
        ({"reads": lambda self, path: path.exists()}, "test_other_paths_are_not_recordings", ()),
        ({"writer": overwrites}, "test_an_existing_path_is_refused_and_kept", ()),
    ],
)
def test_a_broken_format_is_noticed(
    tmp_path: Path, broken: dict[str, Any], rule: str, arguments: tuple[Any, ...]
) -> None:
    class Formats(RecordingFormatConformance):
        format = "minari"

        def make(self) -> Any:
            return type("Broken", (MinariFormat,), broken)()

    conformance = Formats()
    conformance.directory = tmp_path
    with pytest.raises((AssertionError, OSError, pytest.fail.Exception)):
        getattr(conformance, rule)(*arguments)
