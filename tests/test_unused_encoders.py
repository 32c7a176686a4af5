"""A run whose settings name an encoder that reads nothing says so once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from small_runs import small_run

from rlcore_devkit import RunRlcore


@pytest.mark.parametrize(
    ("network", "said"),
    [
        ({"vis_encode_type": "simple"}, None),
        ({"vis_encode_type": "nature_cnn"}, "vis_encode_type: nature_cnn has no effect, because no observation is an "),
    ],
    ids=["the default", "another"],
)
def test_an_encoder_of_images_without_images_is_told(
    run_rlcore: RunRlcore, tmp_path: Path, network: dict[str, Any], said: str | None
) -> None:
    config = small_run(tmp_path / "results", {"behaviors.Agent.max_steps": 8})
    config["behaviors"]["Agent"]["network_settings"] |= network
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    done = run_rlcore("run", tmp_path / "run.yaml")
    assert done.exit_code == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if "encode_type" in line]
    assert len(lines) == (said is not None) and all(said in line for line in lines if said)
