"""Studies of rlcore: several runs side by side, and comparisons of configurations over seeds.

Three plugins have a package of their own: :mod:`~rlcore_study.report` writes a page about runs,
:mod:`~rlcore_study.sweep` searches hyperparameters, and :mod:`~rlcore_study.checkpoints` lists and prunes checkpoints.
"""
