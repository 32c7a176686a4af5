"""Turns a configuration file into a :class:`rlcore.RunConfig`, with errors that say what to fix.

In reading order: :mod:`~rlcore.config.document` (mappings and lists that know the line of every entry, and all errors
at once), :mod:`~rlcore.config.reading` (reads YAML), :mod:`~rlcore.config.rewriting` (``--set`` and flags, blocks that
inherit, the one way in which each block is written), :mod:`~rlcore.config.load` (the plugins that a file chooses, then
all steps in order), :mod:`~rlcore.config.structure` (data into settings classes, through cattrs),
:mod:`~rlcore.config.choices` (the records whose classes blocks have) and :mod:`~rlcore.config.rules` (rules between
blocks, and for names). :mod:`~rlcore.config.dump` writes a configuration.
"""
