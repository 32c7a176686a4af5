"""Records the episodes of a run as a :class:`rlcore.recordings.Recording`.

:mod:`rlcore.recordings` is the contract of recording formats, and :mod:`rlcore.plugins.recording_formats` calls them.
"""
