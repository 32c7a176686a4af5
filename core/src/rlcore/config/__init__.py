"""Turns a configuration file into a :class:`rlcore.RunConfig`, with errors that say what to fix.

In reading order: :mod:`~rlcore.config.document` (reads YAML, with the line of every key),
:mod:`~rlcore.config.nodes` (mappings and lists that know these lines), :mod:`~rlcore.config.overrides` (``--set`` and
flags), :mod:`~rlcore.config.plugins_block` (the ``plugins`` block, before plugins are imported),
:mod:`~rlcore.config.load` (all steps in order),
:mod:`~rlcore.config.modify` (changes by plugins), :mod:`~rlcore.config.inherit`, :mod:`~rlcore.config.num_envs` and
:mod:`~rlcore.config.parameter_blocks` (several ways to write a block become one), :mod:`~rlcore.config.blocks` (each
block with its settings class), :mod:`~rlcore.config.structure` (unknown keys, wrong types; its neighbors
:mod:`~rlcore.config.classes` and :mod:`~rlcore.config.scalars`) and :mod:`~rlcore.config.rules` (rules between blocks).
:mod:`~rlcore.config.collected` and :mod:`~rlcore.config.problems` report all errors at once;
:mod:`~rlcore.config.dump`, :mod:`~rlcore.config.seal` and :mod:`~rlcore.config.schema` write.
"""
