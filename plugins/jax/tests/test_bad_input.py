"""Every mistake of a user is answered with the place and the solution."""

from __future__ import annotations

from pathlib import Path

import jax_worlds
import pytest
import yaml

from rlcore import ConfigError

CASES = yaml.safe_load((Path(__file__).parent / "data/bad_input.yaml").read_text(encoding="utf-8"))
SOURCES = {"pgx": (jax_worlds.PGX, "pgx"), "playground": (jax_worlds.PLAYGROUND, "mujoco_playground")}


@pytest.mark.parametrize(("source", "case"), [(source, case) for source, cases in CASES.items() for case in cases])
def test_bad_input_is_refused(source: str, case: str) -> None:
    settings, package = SOURCES[source]
    pytest.importorskip(package, reason=f"{package} is not installed: pip install './plugins/jax[{source}]'")
    wrong = {"id": "CartpoleBalance", "parameters": {}, "options": {}, **CASES[source][case]}
    with pytest.raises(ConfigError, match=wrong["message"]) as caught:
        jax_worlds.make(settings, wrong["id"], 2, wrong["parameters"], **wrong["options"])
    assert ".".join(caught.value.key) == wrong["key"]
