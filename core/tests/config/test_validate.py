"""``rlcore validate`` and loading through the real plugin facade."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore import Selection, hookimpl, load_config, load_plugins, main
from rlcore.config.reading import parse_document
from rlcore.errors import EXIT_CONFIG, EXIT_DONE, EXIT_PLUGIN, PluginError
from rlcore.records import TrainerSpec

PPO = "behaviors:\n  B: {trainer_type: ppo}\n"


class OneTrainer:
    """A plugin whose settings classes are rlcore's own, so that they can be imported by name."""

    @hookimpl
    def rlcore_trainers(self) -> list[TrainerSpec]:
        return [TrainerSpec(name="ppo", target="a:b", settings="rlcore.settings:CheckpointSettings")]


def test_a_name_that_two_plugins_have_is_refused_where_it_is_written() -> None:
    plugins = load_plugins(Selection(autoload=False))
    for name in ("acme", "other"):
        plugins.register(OneTrainer(), name, f"{name}-rl", "1.0")
    with pytest.raises(PluginError, match=r"^c\.yaml:2: behaviors\.B\.trainer_type: .*write trainer_type: acme-rl/ppo"):
        load_config(parse_document(PPO, "c.yaml"), plugins)


# ---------------------------------------------------------------- the command

CASES = yaml.safe_load((Path(__file__).parent / "data/validate.yaml").read_text(encoding="utf-8"))


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    return Path("c.yaml").write_text


@pytest.mark.parametrize("case", CASES)
def test_validate_prints_every_error_on_its_line(write: Any, capsys: pytest.CaptureFixture[str], case: str) -> None:
    told = CASES[case]
    write(told["file"])
    words = ["validate", told.get("named", "c.yaml"), *told.get("options", ())]
    assert main(words) == told["code"]
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == len(told["lines"]), printed
    assert all(found.startswith(line) for found, line in zip(printed, told["lines"], strict=True)), printed
    assert main([*words, "--json"]) == told["code"]
    answer = capsys.readouterr().out
    if told["code"] != EXIT_PLUGIN:
        assert json.loads(answer)["valid"] == (told["code"] == EXIT_DONE)
        places = [each["place"] for each in json.loads(answer)["errors"]]
        assert len(places) == (0 if told["code"] == EXIT_DONE else len(printed))
        assert all(map(str.startswith, printed, places))


def test_a_mistyped_distribution_ends_a_run_too_and_is_told_the_nearest(
    write: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    write(PPO.replace("ppo", "rlcore-pp/ppo"))
    assert main(["run", "c.yaml"]) == EXIT_CONFIG
    assert "; did you mean 'rlcore-ppo/ppo'?" in capsys.readouterr().err


def test_a_valid_file_is_checked_without_torch_and_settings_are_declared_without_yaml_or_numpy(write: Any) -> None:
    write(CASES["valid"]["file"])
    code = (
        "import sys, rlcore.config\n"
        "assert not {'yaml', 'numpy', 'torch', 'click'} & sys.modules.keys()\n"
        "from rlcore.cli.main import main\n"
        "assert main(['validate', 'c.yaml']) == 0 and 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
