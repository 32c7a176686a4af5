"""``rlcore plugins hooks``: each hook with its signature and what it is for."""

from __future__ import annotations

import inspect
import json

from rlcore import hookspecs
from rlcore_devkit.fixtures import RunRlcore


def test_hooks_are_shown_with_signature_and_text(run_rlcore: RunRlcore) -> None:
    hooks = {hook["name"]: hook for hook in json.loads(run_rlcore("plugins", "hooks", "--json").stdout)["hooks"]}
    own = {name: hook for name, hook in vars(hookspecs).items() if name.startswith("rlcore_")}
    assert {name: hooks[name]["text"] for name in own} == {name: inspect.getdoc(hook) for name, hook in own.items()}
    assert (
        hooks["rlcore_restore_status"]["signature"]
        == "rlcore_restore_status(run: RunContext, sections: Mapping[str, Any]) -> None"
    )
    one = run_rlcore("plugins", "hooks", "rlcore_run_started").stdout
    assert one.startswith("rlcore_run_started(run: RunContext) -> None\n    notification hook of rlcore")
    assert "rlcore_trainers" not in one
    unknown = run_rlcore("plugins", "hooks", "rlcore_trainer")
    assert unknown.exit_code == 4 and "no hook 'rlcore_trainer'; did you mean 'rlcore_trainers'?" in unknown.stderr
