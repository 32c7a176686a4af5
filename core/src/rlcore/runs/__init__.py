"""A run: from a configuration to trained policies, and back from a run directory.

In reading order: :mod:`~rlcore.runs.run` (what users call), :mod:`~rlcore.runs.setup` (creates the environment,
trainers and curricula), :mod:`~rlcore.runs.starting` (starts a training, new or resumed),
:mod:`~rlcore.runs.training` (epochs and what is due between two of them), :mod:`~rlcore.runs.loop` (steps the
environment) and :mod:`~rlcore.runs.state` (what a checkpoint saves). :mod:`~rlcore.runs.evaluations` decides when to
evaluate and which evaluation is the best, :mod:`~rlcore.runs.evaluator` evaluates, :mod:`~rlcore.runs.summaries` makes
the summaries that are due, and :mod:`~rlcore.runs.saved_run` reads a run back.
"""
