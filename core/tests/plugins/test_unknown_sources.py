"""DIST/NAME of what is not installed, or was in another distribution."""

from __future__ import annotations

from unittest.mock import patch

import attrs
import pytest

from rlcore.errors import NotInstalled
from rlcore.plugins.call import Plugins
from rlcore.plugins.discover import Plugin
from rlcore.records import CurriculumSpec

ACME = Plugin("acme", "acme.hooks", "acme-rl-curricula", "1.0")
THERE = CurriculumSpec(name="bandit", target="json:loads", settings="json:loads", plugin=ACME)


def find(reference: str, *records: CurriculumSpec) -> CurriculumSpec:
    with patch.object(Plugins, "records", return_value=records):
        return Plugins().record(CurriculumSpec, reference)


@pytest.mark.parametrize(
    ("reference", "absent"), [("acme-rl-twin/bandit", True), ("acme_rl.curricula/ladder", False), ("ladder", False)]
)
def test_a_distribution_that_is_not_there_is_named(reference: str, absent: bool) -> None:
    with pytest.raises(NotInstalled, match=f"^unknown curriculum '{reference}'; allowed: ") as caught:
        find(reference, THERE)
    assert ("nothing called 'acme-rl-twin' is installed" in str(caught.value)) == absent


def test_a_record_is_found_by_the_name_that_it_had_in_another_distribution() -> None:
    moved = attrs.evolve(THERE, formerly="acme-old/thief")
    other = attrs.evolve(THERE, name="thief", plugin=attrs.evolve(ACME, distribution="acme-old"))
    for name in ("acme-old/thief", "Acme.Old/thief", "acme-rl-curricula/bandit", "bandit"):
        assert find(name, moved) is moved
    assert find("acme-old/thief", moved, other) is other  # which has this name now
    for name in ("acme-old/bandit", "acme-rl-curricula/thief", "thief"):
        with pytest.raises(NotInstalled):
            find(name, moved)
