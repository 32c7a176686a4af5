"""``rlcore push`` and ``rlcore pull``: runs on a model hub of the kind that ``huggingface_hub`` speaks to.

:mod:`~rlcore_hub.command` has the commands. For an upload, :mod:`~rlcore_hub.contents` chooses the files of a run,
:mod:`~rlcore_hub.score` plays episodes for the score, :mod:`~rlcore_hub.curve` draws the curve, :mod:`~rlcore_hub.card`
writes the model card, and :mod:`~rlcore_hub.upload` sends everything as one commit. :mod:`~rlcore_hub.download` has the
way back, which trusts nothing that it downloads. :mod:`~rlcore_hub.errors` makes errors of the hub one message.
"""
