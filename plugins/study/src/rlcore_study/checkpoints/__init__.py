"""``rlcore checkpoints``: lists, verifies and prunes the checkpoints of a run.

:mod:`~rlcore_study.checkpoints.command` has the commands, :mod:`~rlcore_study.checkpoints.details` what they show of a
checkpoint, and :mod:`~rlcore_study.checkpoints.pruning` which checkpoints a pruning deletes.
"""
