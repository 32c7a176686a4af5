"""A run in several processes, the *ranks* that ``torchrun`` starts: what they exchange, and which part each has.

:class:`rlcore.Ranks` is the contract; ``run.ranks`` of a :class:`rlcore.RunContext` has the ranks of
a run, a :class:`OneRank` if one process does everything. :mod:`rlcore_torch.distributed` implements the exchange.
"""

from __future__ import annotations

from rlcore.ranks.ranks import OneRank, Ranks

__all__ = ["OneRank", "Ranks"]
