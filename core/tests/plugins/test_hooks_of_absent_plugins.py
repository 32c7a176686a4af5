"""A hook may be right, and the plugin that specifies it turned off or not installed."""

from __future__ import annotations

from typing import Any

import pytest

from rlcore import hookimpl
from rlcore.plugins.manager import HookManager, problems


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        ("rlcore_samplers", "unknown hook 'rlcore_samplers': no plugin that is on specifies it"),
        ("rlcore_curiculum", "unknown hook 'rlcore_curiculum'; did you mean 'rlcore_curricula'?"),
        ("rlcore_run_start", "unknown hook 'rlcore_run_start'; did you mean 'rlcore_run_started'?"),
    ],
)
def test_a_hook_of_nobody_is_called_another_only_if_it_is_like_it(hook: str, said: str) -> None:
    def implementation(self: Any) -> None: ...

    implementation.__name__ = hook
    plugin = type("Plugin", (), {hook: hookimpl(implementation)})()
    assert problems(plugin, HookManager()) == [said]
