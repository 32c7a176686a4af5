"""Configurations by name, each with the scores that it reached when it was measured.

``files/TRAINER/WORLD.yaml`` are the configurations, ``files/index.yaml`` says what each of them needs, and
``files/measured.jsonl`` has one line for each training that was measured. :mod:`~rlcore_zoo.collection` finds files by
name, :mod:`~rlcore_zoo.entries` joins a file with its measurements, :mod:`~rlcore_zoo.intervals` says where the score
of a new seed is expected, :mod:`~rlcore_zoo.trainings` trains a file in full, and :mod:`~rlcore_zoo.command` has the
commands. :mod:`rlcore_zoo.hub` is the plugin that shares runs on a model hub.
"""

from rlcore_zoo.records import CollectionSpec

__all__ = ["CollectionSpec"]
