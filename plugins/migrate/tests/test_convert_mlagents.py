"""``rlcore convert mlagents``: old trainer files, curricula and samplers of ML-Agents become one valid configuration.

The files in ``data/mlagents`` are made up, in the form of 0.13 to 1.0. What they become is written by hand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import ConfigError, ConfigErrors, main
from rlcore_migrate.mlagents import ConvertedFiles, convert_files

FILES = Path(__file__).parent / "data" / "mlagents"
EXPECTED = yaml.safe_load((FILES / "expected.yaml").read_text(encoding="utf-8"))
CURRICULA = {"ppo": FILES / "lessons.yaml", "sac": FILES / "lessons"}


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def from_text(
    text: str, *behaviors: str, lessons: str | None = None, samplers: str | None = None
) -> tuple[dict[str, Any], ConvertedFiles]:
    """The configuration and the result for files with these texts."""
    Path("old.yaml").write_text(text)
    paths = [None if each is None else Path(name) for name, each in (("l.yaml", lessons), ("s.yaml", samplers))]
    for path, each in zip(paths, (lessons, samplers), strict=True):
        if path is not None:
            path.write_text(str(each))
    result = convert_files(Path("old.yaml"), behaviors, *paths)
    return yaml.safe_load(result.text), result


@pytest.mark.parametrize("trainer", ["ppo", "sac"])
def test_a_file_with_its_lessons_and_samplers_becomes_one_configuration(trainer: str) -> None:
    pytest.importorskip(f"rlcore_{trainer}")
    for needed in ("rlcore_curriculum", "rlcore_ghost", "rlcore_intrinsic", "rlcore_offline"):
        pytest.importorskip(needed)
    words = ["convert", "mlagents", str(FILES / f"{trainer}.yaml"), "--curriculum", str(CURRICULA[trainer])]
    assert main([*words, "--sampler", str(FILES / "samplers.yaml"), "-o", "new.yaml"]) == 0
    assert yaml.safe_load(Path("new.yaml").read_text()) == EXPECTED[trainer]
    Path("demos").mkdir()
    assert main(["validate", "new.yaml"]) == 0


def test_every_key_that_is_not_converted_is_named_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "mlagents", str(FILES / "ppo.yaml"), "-o", "new.yaml"]) == 0
    keys = "default.summary_path, Climber.gamma, Climber.num_epochs, default.sequence_length"
    assert capsys.readouterr().out == f"wrote new.yaml: Climber, Duel; not converted: {keys}\n"
    left_out = convert_files(FILES / "ppo.yaml").left_out
    assert left_out == {
        "default.summary_path": "a run writes into its own directory",
        "Climber.gamma": "each reward of reward_signals has its own",
        "Climber.num_epochs": "not a key of ML-Agents; did you mean 'num_epoch'?",
        "default.sequence_length": "has no effect without use_recurrent",
    }
    head = " ".join(Path("new.yaml").read_text().replace("\n# ", " ").split())
    assert all(f"- {key}: {reason}" in head for key, reason in left_out.items())
    assert convert_files(FILES / "sac.yaml").left_out == {"Searcher.beta": "a key of ppo"}


def test_a_block_of_a_section_replaces_that_of_default_whole() -> None:
    text = (
        "default: {trainer: ppo, reward_signals: {extrinsic: {gamma: 0.9}}}\nA: {reward_signals: {rnd: {gamma: 0.8}}}"
    )
    data, _ = from_text(text)
    assert data["behaviors"]["A"]["reward_signals"] == {"rnd": {"gamma": 0.8}}


def test_chosen_sections_are_converted_and_one_that_is_absent_is_default() -> None:
    text = "default: {trainer: ppo}\nA: {max_steps: 5}\nB: {max_steps: 6}"
    data, result = from_text(text, "B", "C", lessons="A: {measure: x}")
    assert data["behaviors"] == {"B": {"trainer_type": "ppo", "max_steps": 6}, "C": {"trainer_type": "ppo"}}
    assert "C: the file has no such section; this is its section default" in result.text
    assert result.left_out == {"curriculum of A": "another behavior"}
    with pytest.raises(ConfigError, match=r"--behavior Hoper: the file has no such section; did you mean 'Hopper'\?"):
        from_text("Hopper: {trainer: ppo}", "Hoper")


def test_a_file_with_default_alone_becomes_default_settings() -> None:
    data, _ = from_text("default: {trainer: sac, batch_size: 64}")
    defaults = {"trainer_type": "sac", "hyperparameters": {"batch_size": 64}}
    assert data == {"preset": "none", "default_settings": defaults}


def test_the_rewards_of_0_7_are_flat_keys() -> None:
    curiosity = "use_curiosity: true, curiosity_strength: 0.05, curiosity_enc_size: 16"
    data, _ = from_text(f"A: {{trainer: ppo, gamma: 0.9, {curiosity}}}")
    assert data["behaviors"]["A"]["reward_signals"] == {
        "extrinsic": {"strength": 1.0, "gamma": 0.9},
        "curiosity": {"strength": 0.05, "gamma": 0.9, "network_settings": {"hidden_units": 16}},
    }
    data, result = from_text(f"A: {{trainer: ppo, gamma: 0.9, {curiosity.replace('true', 'false')}}}")
    assert data["behaviors"]["A"]["reward_signals"] == {"extrinsic": {"strength": 1.0, "gamma": 0.9}}
    assert set(result.left_out) == {"A.use_curiosity", "A.curiosity_strength", "A.curiosity_enc_size"}


def test_a_file_of_1_1_to_1_3_keeps_its_behaviors_and_moves_lessons_and_samplers() -> None:
    data, result = from_text(
        "behaviors: {A: {trainer_type: ppo, max_steps: 5.0e5}}\n"
        "env_settings: {seed: 3}\n"
        "curriculum:\n  A: {measure: reward, thresholds: [0.5], min_lesson_length: 9, signal_smoothing: true,"
        " parameters: {height: [1, 2]}}\n"
        "parameter_randomization:\n  resampling-interval: 100\n"
        "  mass: {sampler-type: uniform, min_value: 1, max_value: 2}\n"
        "  drag: {sampler_type: gaussian, sampler_parameters: {mean: 3}}\n"
    )
    criteria = {
        "behavior": "A",
        "measure": "reward",
        "threshold": 0.5,
        "min_lesson_length": 9,
        "signal_smoothing": True,
    }
    assert data == {
        "preset": "none",
        "env_settings": {"seed": 3},
        "behaviors": {"A": {"trainer_type": "ppo", "max_steps": 500000}},
        "environment_parameters": {
            "height": {
                "curriculum": [
                    {"name": "Lesson0", "value": 1, "completion_criteria": criteria},
                    {"name": "Lesson1", "value": 2},
                ]
            },
            "mass": {"sampler_type": "uniform", "sampler_parameters": {"min_value": 1, "max_value": 2}},
            "drag": {"sampler_type": "gaussian", "sampler_parameters": {"mean": 3}},
        },
    }
    assert result.left_out == {"resampling-interval": "each episode draws a new value"}


LESSONS = "min_lesson_length: 1, signal_smoothing: true"
REFUSED = [
    ("A: 3", None, None, "old.yaml:1: A: must be a mapping, not 3"),
    ("A: {batch_size: 8}", None, None, "old.yaml:1: A.trainer: must be ppo or sac, not None"),
    (
        "default: {trainer: online_bc}\nA: {}",
        None,
        None,
        "old.yaml:1: default.trainer: ML-Agents removed the trainer online_bc in 0.13; its successor is the block "
        "behavioral_cloning of ppo or sac, with demo_path",
    ),
    (
        "My Brain: {trainer: ppo}",
        None,
        None,
        "old.yaml:1: 'My Brain': not a name of a behavior here, which has letters, digits, '.', '_' and '-'; rename "
        "the behavior in the scene too",
    ),
    (
        "A: {trainer: sac, train_interval: 2, num_update: 0}",
        None,
        None,
        "old.yaml:1: A.train_interval: train_interval and num_update must be numbers above 0, not [2, 0]",
    ),
    ("A: {trainer: ppo}", "B: {}", None, "l.yaml:1: B: a curriculum of B, which is not a behavior of the file"),
    (
        "A: {trainer: ppo}",
        f"A: {{measure: speed, thresholds: [1], {LESSONS}, parameters: {{}}}}",
        None,
        "l.yaml:1: A.measure: must be one of reward, progress, not 'speed'",
    ),
    (
        "A: {trainer: ppo}",
        f"A: {{measure: reward, thresholds: [1], {LESSONS}, parameters: {{h: [1, 2, 3]}}}}",
        None,
        "l.yaml:1: A.parameters.h: must be a list of 2 values, one more than thresholds",
    ),
    ("A: {trainer: ppo}", "A: {measure: reward, thresholds: [1]}", None, "l.yaml:1: A: min_lesson_length is missing"),
    (
        "A: {trainer: ppo}",
        None,
        "mass: {sampler-type: unifrm}",
        "s.yaml:1: mass.sampler-type: must be one of uniform, gaussian, multirange_uniform, not 'unifrm'; did you mean "
        "'uniform'?",
    ),
    (
        "A: {trainer: ppo}",
        None,
        "mass: {sampler-type: uniform, min_val: 1}",
        "s.yaml:1: mass.min_val: not a key of uniform; did you mean 'min_value'?",
    ),
    (
        "A: {trainer: ppo}",
        f"A: {{measure: reward, thresholds: [], {LESSONS}, parameters: {{h: [1]}}}}",
        "h: {sampler-type: uniform}",
        "s.yaml:1: h: set twice, by two curricula or by a curriculum and a sampler; keep one",
    ),
]


@pytest.mark.parametrize(("text", "lessons", "samplers", "message"), REFUSED, ids=[each[3] for each in REFUSED])
def test_what_cannot_be_converted_is_refused_with_its_line(
    text: str, lessons: str | None, samplers: str | None, message: str
) -> None:
    with pytest.raises(ConfigErrors) as caught:
        from_text(text, lessons=lessons, samplers=samplers)
    assert message in caught.value.messages


def test_an_output_that_exists_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    Path("new.yaml").write_text("mine")
    assert main(["convert", "mlagents", str(FILES / "ppo.yaml"), "-o", "new.yaml"]) == 2
    assert "-o new.yaml: exists; replace it with --force" in capsys.readouterr().err
    assert Path("new.yaml").read_text() == "mine"


def test_the_answer_of_json_has_the_text_and_what_is_not_converted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "mlagents", str(FILES / "ppo.yaml"), "-o", "new.yaml", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["text"] == Path("new.yaml").read_text() and answer["output"] == "new.yaml"
    assert "Climber.gamma: each reward of reward_signals has its own" in answer["differences"]
