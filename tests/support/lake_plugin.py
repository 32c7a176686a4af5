"""A plugin that registers the tracker ``lake``, whose store is a file: :class:`tracked_runs.FileTracker`."""

from rlcore_trackers.hooks import TrackerSpec, hooks_of, make_writer


def create(settings, run):
    return make_writer(SPEC, settings, run)


SPEC = TrackerSpec(
    name="lake",
    target="lake_plugin:create",
    settings="rlcore_trackers.settings:TrackerSettings",
    tracker="tracked_runs:FileTracker",
)
rlcore_stats_writers, rlcore_checkpoint_saved, rlcore_run_finished = hooks_of(SPEC)
