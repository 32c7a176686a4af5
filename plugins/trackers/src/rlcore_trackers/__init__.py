"""Experiment trackers as statistics writers: the journal of a run, and the process that sends it to W&B and others.

A tracker's library never runs in the process of a training. The training appends each summary to a journal in the run
directory, ``trackers/NAME.jsonl``. A second process, the sender, reads the journal, asks the tracker's store which
summaries it has, and sends the others. So a library that hangs, raises, prints or ends its process costs a training
nothing, and a summary is in the store exactly once, wherever the training or the sender was killed.
"""

from rlcore_trackers.hooks import TrackerSpec
from rlcore_trackers.settings import TrackerSettings
from rlcore_trackers.tracker import Tracked, TrackedFile, TrackedSummary, Tracker, flat, text

__all__ = ["Tracked", "TrackedFile", "TrackedSummary", "Tracker", "TrackerSettings", "TrackerSpec", "flat", "text"]
