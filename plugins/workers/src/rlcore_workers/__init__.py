"""Workers: the environments of a run in several processes, or wherever an executor runs them.

In reading order: :mod:`~rlcore_workers.contract` (executors and workers), :mod:`~rlcore_workers.layout` and
:mod:`~rlcore_workers.arrays` (the memory that batches and actions are in), :mod:`~rlcore_workers.part` (what runs in a
worker), :mod:`~rlcore_workers.supervisor` (deadlines and restarts), :mod:`~rlcore_workers.environment` (all workers as
one environment), :mod:`~rlcore_workers.overlap` (workers that step while the run computes),
:mod:`~rlcore_workers.create` (how a run gets them), and the executor :mod:`~rlcore_workers.processes` with the program
of its processes, :mod:`~rlcore_workers.child`, and their messages, :mod:`~rlcore_workers.channel`. An executor whose
workers share no memory with the run sends rows with :mod:`~rlcore_workers.messages`. Environments that start a game or
simulator have :mod:`~rlcore_workers.player_process` and :mod:`~rlcore_workers.player_supervisor`.

Importing this package is cheap: each name is imported from its module on first use. ``__init__.pyi`` lists the names.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
