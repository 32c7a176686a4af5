"""A run: from a configuration to trained policies, and back from a run directory.

In reading order: :mod:`~rlcore.run.run` (what users call), :mod:`~rlcore.run.setup` (creates the environment,
trainers and curricula), :mod:`~rlcore.run.starting` (starts a training, new or resumed),
:mod:`~rlcore.run.training` (epochs and what is due between two of them), :mod:`~rlcore.run.loop` (steps the
environment) and :mod:`~rlcore.run.state` (what a checkpoint saves). :mod:`~rlcore.run.evaluations` decides when to
evaluate and which evaluation is the best, :mod:`~rlcore.run.evaluate` evaluates, :mod:`~rlcore.run.summaries` makes
the summaries that are due, and :mod:`~rlcore.run.saved` reads a run back.
"""
