"""A run: from a configuration to trained policies, and back from a run directory.

In reading order: :mod:`~rlcore.run.run` (what users call), :mod:`~rlcore.run.prepare` (checks the configuration, once
:mod:`~rlcore.run.presets_by_default` has chosen its presets), :mod:`~rlcore.run.assemble` (makes a training of it;
:mod:`~rlcore.run.environments` creates the environment, :mod:`~rlcore.run.components` trainers and writers),
:mod:`~rlcore.run.resume` (restores it, in order), :mod:`~rlcore.run.training` (epochs and the end),
:mod:`~rlcore.run.loop` (steps the environment), :mod:`~rlcore.run.boundaries` (what happens between two steps, in
order), :mod:`~rlcore.run.growing` (slots for agents that appear within a run) and :mod:`~rlcore.run.state` (what a
checkpoint saves).
:mod:`~rlcore.run.evaluation.evaluations` decides when to evaluate and which evaluation is the best,
:mod:`~rlcore.run.evaluation.evaluate` evaluates, and :mod:`~rlcore.run.saved` reads a run back.
"""
