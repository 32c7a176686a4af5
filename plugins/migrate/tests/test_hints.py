"""Messages about keys, values and options of other frameworks, of old files, and in the wrong block."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import ConfigErrors, Plugins, apply_overrides, load_config, load_plugins, main, read_document
from rlcore_migrate.hints import foreign_keys, value_hint

pytest.importorskip("rlcore_ppo")
DATA = Path(__file__).parent / "data"
RULES = yaml.safe_load((DATA / "hints.yaml").read_text(encoding="utf-8"))
CASES = [
    pytest.param(case, id=f"{rule} {index}" if index else rule)
    for rule, cases in RULES.items()
    for index, case in enumerate(cases)
]
BLOCKS = (
    "behaviors: {{B: {{trainer_type: ppo, {key}: 1}}}}",
    "behaviors: {{B: {{trainer_type: ppo, hyperparameters: {{{key}: 1}}}}}}",
    "behaviors: {{B: {{network_settings: {{{key}: 1}}}}}}",
    "behaviors: {{B: {{}}}}\nenvironment: {{type: gymnasium, {key}: 1}}",
)
LEARNED = ", from which it is learned while learn_entcoef is true"


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins()


def lines(text: str, plugins: Plugins, sets: Any = ()) -> list[str]:
    Path("c.yaml").write_text(text)
    with pytest.raises(ConfigErrors) as caught:
        load_config(apply_overrides(read_document(Path("c.yaml")), sets), plugins)
    return list(caught.value.messages)


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("case", CASES)
def test_what_is_refused_has_these_lines(plugins: Plugins, case: dict[str, Any]) -> None:
    found = lines(case["input"], plugins, case.get("sets", ()))
    assert [re.sub(r"(allowed: )[^);]*", r"\1...", line) for line in found] == case["lines"]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_known_key_is_never_guessed(plugins: Plugins, block: str) -> None:
    for key in {**foreign_keys()["stable_baselines3"], **foreign_keys()["cleanrl"]}:
        messages = lines(block.format(key=key), plugins)
        assert messages and not any("did you mean" in message for message in messages)
        assert all(key in message for message in messages)


@pytest.mark.parametrize(
    ("path", "value", "hint"),
    [
        ("hyperparameters.init_entcoef", "auto", f"; write 1.0{LEARNED}"),
        ("hyperparameters.init_entcoef", "auto_0.1", f"; write 0.1{LEARNED}"),
        ("hyperparameters.learning_rate", "lin_3e-4", "; write 3e-4 with learning_rate_schedule: linear"),
        ("hyperparameters.learning_rate", "lin_fast", ""),
        ("hyperparameters.batch_size", "lin_5", ""),
        ("acme.learning_rate", "lin_0.1", ""),
        ("hyperparameters.init_entcoef", "automatic", ""),
        ("learning_rate", "lin_0.1", ""),
    ],
)
def test_values_of_rl_zoo_say_what_to_write_instead_and_other_texts_nothing(path: str, value: str, hint: str) -> None:
    assert value_hint(tuple(path.split(".")), value) == hint


@pytest.mark.parametrize("case", yaml.safe_load((DATA / "flags_of_others.yaml").read_text()), ids=str)
def test_an_option_of_another_program_gets_the_one_to_write(case: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "c.yaml", *case["flags"].split()]) == 2
    assert capsys.readouterr().err == f"error: {case['answer']}\n"
