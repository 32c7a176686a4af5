"""PettingZoo's own tests pass on environments of rlcore, and on its games after the way there and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test

from rlcore import Environment
from rlcore_devkit import TinyCorridor
from rlcore_devkit.environments import (
    ImageIdentity,
    identity_hybrid,
    identity_multi_branch,
)
from rlcore_pettingzoo.adapters import aec_env, parallel_env

pytestmark = pytest.mark.smoke

OWN: dict[str, Callable[[], Environment]] = {
    "corridor": lambda: TinyCorridor(1),
    "masked corridor": lambda: TinyCorridor(1, masked=True),
    "branches": lambda: identity_multi_branch(1),
    "hybrid": lambda: identity_hybrid(1),
    "image": lambda: ImageIdentity(1),
}
AND_BACK: dict[str, dict[str, Any]] = {
    "classic/tictactoe-v3": {},
    "classic/connect_four-v3": {},
    "classic/rps-v2": {},
    "zoo_games:circle": {"arguments": {"players": 4}},
    "zoo_games:fading": {"arguments": {"agents": 4, "late": 1}, "final_info": ["age"]},
    "mpe2.simple_tag_v3:parallel_env": {},
    "openspiel/kuhn_poker": {},
}


@pytest.fixture(params=[*OWN, *AND_BACK])
def create(request: pytest.FixtureRequest, make: Callable[..., Any]) -> Callable[[], Environment]:
    """A function that creates an environment with one copy."""
    name = request.param
    if name in OWN:
        return OWN[name]
    for start, module in (("classic/", "pygame"), ("mpe2", "mpe2"), ("openspiel/", "pyspiel")):
        if name.startswith(start):
            pytest.importorskip(module)
    return lambda: make(name, 1, **AND_BACK[name])


@pytest.mark.filterwarnings("ignore")  # about names, spaces and drawing
def test_both_forms_pass_the_tests_of_pettingzoo(create: Callable[[], Environment]) -> None:
    api_test(aec_env(create()), num_cycles=200)
    seed_test(lambda: aec_env(create()), num_cycles=100)
    if aec_env(create()).metadata["is_parallelizable"]:
        parallel_api_test(parallel_env(create()), num_cycles=200)
        parallel_seed_test(lambda: parallel_env(create()), num_cycles=100)
    else:
        with pytest.raises(AssertionError, match="not generally safe"):
            parallel_env(create())
