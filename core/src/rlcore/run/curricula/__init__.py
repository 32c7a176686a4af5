"""Connect curricula to runs: the values of each environment, and the draw that each open episode uses.

:mod:`rlcore.contracts.curriculum` is the contract that curricula implement.
"""
