"""``rlcore push`` and ``rlcore pull``: runs on a model hub of the kind that ``huggingface_hub`` speaks to.

:mod:`~rlcore_zoo.hub.command` has the commands. For an upload, :mod:`~rlcore_zoo.hub.contents` chooses the files of a
run, :mod:`~rlcore_zoo.hub.score` plays episodes for the score, :mod:`~rlcore_zoo.hub.curve` draws the curve,
:mod:`~rlcore_zoo.hub.card` writes the model card, and :mod:`~rlcore_zoo.hub.upload` sends everything as one commit.
:mod:`~rlcore_zoo.hub.download` has the way back, which trusts nothing that it downloads.
:mod:`~rlcore_zoo.hub.errors` makes errors of the hub one message.
"""
