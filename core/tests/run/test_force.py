"""``--force`` replaces a run only when the new one can start."""

from __future__ import annotations

from typing import Any

import pytest

FORCE = {"checkpoint_settings": {"force": True}}


def test_a_forced_start_that_fails_costs_no_old_run(make_run: Any, files: Any) -> None:
    make_run().train()
    before = files().everything()
    with pytest.raises(Exception, match="port"):
        make_run({**FORCE, "environment.options": {"fault": "raise in reset"}}).train()
    assert files().everything() == before
