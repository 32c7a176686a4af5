"""A configuration of a stranger may choose installed environments and nothing of this machine, by all our records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlcore import (
    ConfigError,
    config_from_mapping,
    document_from_mapping,
    load_plugins,
    named_by_a_stranger,
    selection_from,
)
from rlcore.run.saved import provenance


def test_environments_and_writers_are_allowed_if_their_records_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    plugins = load_plugins(selection_from(None, {}, (), False))

    def named(**blocks: Any) -> list[str]:
        behaviors = {"Pole": {"trainer_type": "ppo"}}
        return named_by_a_stranger(config_from_mapping({"behaviors": behaviors, **blocks}, plugins), plugins)

    def environment(**keys: Any) -> list[str]:
        return named(environment={"type": "gymnasium", "id": "CartPole-v1", **keys})

    writers = {"tensorboard": {}, "jsonl": {}, "console": False}
    assert environment() == [] and named(environment={"id": "ALE/Pong-v5"}, stats=writers) == []
    assert environment(options={"map_name": "8x8", "slippery": False}) == []
    assert environment(options={"xml_file": "/etc/passwd"}) == ["environment.options.xml_file: '/etc/passwd'"]
    assert environment(options={"xml_file": "file"}) == ["environment.options.xml_file: 'file'"]
    assert environment(id="../x") == ["environment.id: '../x'"]
    assert named(environment={"id": "a"}, stats={"wandb": {}}) == [
        "stats.wandb: a statistics writer that may send them somewhere"
    ]
    assert named(environment={"id": "a"}, stats={"wandb": False}) == []
    godot = {"type": "godot", "engine": "./evil", "project": "game", "args": ["-x"], "port": 11008}
    assert named(environment=godot) == [
        "environment.project: 'game'",
        "environment.engine: './evil'",
        "environment.args[0]: '-x'",
    ]
    unity = {"type": "unity", "address": "0.0.0.0", "executable": "Game"}
    found = named(environment=unity)
    assert {"environment.executable: 'Game'", "environment.address: '0.0.0.0'"} <= {*found}
    ray = {"executor": "ray", "count": 2}
    assert environment(workers={**ray, "address": "10.0.0.1:6379"}, num_envs=2) == [
        "environment.workers.address: '10.0.0.1:6379'"
    ]
    assert environment(workers={**ray, "bind": "0.0.0.0", "allow_public_bind": True}, num_envs=2) == [
        "environment.workers.bind: '0.0.0.0'",
        "environment.workers.allow_public_bind: true",
    ]
    assert environment(workers=2, num_envs=2) == []

    config = config_from_mapping({"behaviors": {"Pole": {}}, "environment": godot}, plugins)
    monkeypatch.setattr(provenance, "written_by_this_user", lambda *paths: False)
    with pytest.raises(ConfigError, match=r"names what may be anything: environment\.project: 'game'"):
        provenance.refuse_names_of_others(config, plugins, tmp_path, document_from_mapping({}))
