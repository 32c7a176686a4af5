"""``rlcore checkpoints``: lists, verifies and prunes the checkpoints of a run.

:mod:`~rlcore_checkpoints.command` has the commands, :mod:`~rlcore_checkpoints.details` what they show of a checkpoint,
and :mod:`~rlcore_checkpoints.pruning` which checkpoints a pruning deletes.
"""
