"""The contract between rlcore and plugins: its number, and the numbers that a distribution declares.

The distribution of a plugin declares the contracts that it was written for by keywords in its metadata, such as
``rlcore-plugin-contract-1``, so that they can be compared before anything of the plugin is imported. A distribution
that declares none is tried. ``rlcore plugins doctor`` says what became of the names of earlier contracts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

CONTRACT = 1
"""The number of the contract between this rlcore and plugins; it is raised when public names move."""
KEYWORD = "rlcore-plugin-contract-"
# Packages from before 0.1 declare `rlcore-contract-N`. The new keyword has another form, so that none of their numbers
# is taken for one of today; all of them count as contract 0.
OLD_KEYWORD = "rlcore-contract-"
BEFORE = 0


def declared(keywords: str) -> tuple[int, ...]:
    """The contracts among the keywords of a distribution, however its build backend separates them."""

    def numbers(keyword: str) -> list[str]:
        return re.findall(rf"(?<![\w-]){keyword}(\d+)(?![\w-])", keywords)

    contracts_declared = tuple(map(int, numbers(KEYWORD)))
    if not contracts_declared and numbers(OLD_KEYWORD):
        return (BEFORE,)
    return contracts_declared


def contract_problem(numbers: Sequence[int], distribution: str, version: str) -> str:
    """Why a distribution that declares the contracts ``numbers``, and not this one, does not fit."""
    from rlcore.plugins.installing import pip_install

    newest = max(numbers)
    base = f"contract {' and '.join(map(str, numbers))} of rlcore"
    if newest == BEFORE:
        base = "rlcore before 0.1"
    problem = f"{distribution} {version} is written for {base}, and this rlcore has contract {CONTRACT}"
    if newest > CONTRACT:
        return f"{problem}; {pip_install('rlcore', upgrade=True)}"
    return (
        f"{problem}; {pip_install(distribution, upgrade=True)}, or port it: the page 'Porting a plugin' has the steps"
    )
