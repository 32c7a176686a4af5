"""Records the episodes of a run as a :class:`rlcore.Recording`.

:mod:`rlcore.contracts.recordings` is the contract of recording formats; :mod:`rlcore.plugins.recording_formats` calls
them.
"""
