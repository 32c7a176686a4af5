"""Workers: the environments of a run in several processes, or wherever an executor runs them.

In reading order: :mod:`~rlcore.workers.contract` (executors and workers), :mod:`~rlcore.workers.layout` and
:mod:`~rlcore.workers.arrays` (the memory that batches and actions are in), :mod:`~rlcore.workers.part` and
:mod:`~rlcore.workers.recipe` (what runs in a worker), :mod:`~rlcore.workers.crew` (deadlines and restarts),
:mod:`~rlcore.workers.environment` (all workers as one environment), :mod:`~rlcore.workers.overlap` (workers that step
while the run computes), and the executor :mod:`~rlcore.workers.processes` with the program of its processes,
:mod:`~rlcore.workers.child`, and their messages, :mod:`~rlcore.workers.channel`. An executor of a plugin whose workers
share no memory with the run sends rows with :mod:`~rlcore.workers.messages`.
"""
