"""DIST/NAME of what is not installed."""

from __future__ import annotations

import pytest

from rlcore.errors import NotInstalled
from rlcore.plugins.discover import Plugin
from rlcore.plugins.registry import find
from rlcore.records import CurriculumSpec

ACME = Plugin("acme", "acme.hooks", "acme-rl-curricula", "1.0")
THERE = CurriculumSpec(name="bandit", target="json:loads", settings="json:loads", plugin=ACME)


@pytest.mark.parametrize(
    ("reference", "absent"), [("acme-rl-twin/bandit", True), ("acme_rl.curricula/ladder", False), ("ladder", False)]
)
def test_a_distribution_that_is_not_there_is_named(reference: str, absent: bool) -> None:
    with pytest.raises(NotInstalled, match=f"^unknown curriculum '{reference}'; allowed: ") as caught:
        find(CurriculumSpec, reference, [THERE], [], [])
    assert ("nothing called 'acme-rl-twin' is installed" in str(caught.value)) == absent
