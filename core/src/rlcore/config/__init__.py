"""Turns a configuration file into a :class:`rlcore.RunConfig`, with errors that say what to fix.

In reading order: :mod:`~rlcore.config.document` (mappings and lists that know the line of every entry),
:mod:`~rlcore.config.reading` (reads YAML), :mod:`~rlcore.config.overrides` (``--set`` and flags),
:mod:`~rlcore.config.plugins_block` (the ``plugins`` block, before plugins are imported), :mod:`~rlcore.config.load`
(all steps in order, changes by plugins among them), :mod:`~rlcore.config.shapes` (several ways to write a block become
one), :mod:`~rlcore.config.structure` (data into settings classes, through cattrs), :mod:`~rlcore.config.choices`
(records whose classes blocks have) and :mod:`~rlcore.config.rules` (rules between blocks, and for names).
:mod:`~rlcore.config.problems` reports all errors at once, and :mod:`~rlcore.config.hints` says what to write instead;
:mod:`~rlcore.config.dump` and :mod:`~rlcore.config.schema` write.
"""
