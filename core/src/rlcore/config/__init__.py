"""Turns a configuration file into a :class:`rlcore.RunConfig`, with errors that say what to fix.

In reading order: :mod:`~rlcore.config.document` (mappings and lists that know the line of every entry),
:mod:`~rlcore.config.problems` (all errors at once), :mod:`~rlcore.config.reading` (reads YAML),
:mod:`~rlcore.config.overrides` (``--set`` and flags), :mod:`~rlcore.config.plugins_block` (the plugins that a file
chooses), :mod:`~rlcore.config.load` (all further steps in order), :mod:`~rlcore.config.inheritance` and
:mod:`~rlcore.config.rewriting` (what the document becomes before it is checked),
:mod:`~rlcore.config.structure` (data into settings classes, through cattrs), :mod:`~rlcore.config.record_reader` (the
records whose classes blocks have) and :mod:`~rlcore.config.rules` (rules between blocks, and for names).
:mod:`~rlcore.config.dump` writes a configuration.
"""
