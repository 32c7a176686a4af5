"""The plugin system: plugins are found by metadata, selected before any is imported, and called through one facade.

:mod:`rlcore.hookspecs` has the hooks that a plugin may implement, :mod:`rlcore.records` the records that it returns.
Here, in reading order: :mod:`~rlcore.plugins.discover` (what a plugin is, which are installed),
:mod:`~rlcore.plugins.contract` (what they were written for), :mod:`~rlcore.plugins.select` (which of them are on),
:mod:`~rlcore.plugins.call` (the facade that the rest of rlcore uses), on :mod:`~rlcore.plugins.manager` (registration,
and calls of hooks by their kind) and :mod:`~rlcore.plugins.registry` (records: collected, found by name, and what they
describe created). :mod:`~rlcore.plugins.context` is what plugins see of a run, with :mod:`~rlcore.plugins.stops` and
:mod:`~rlcore.plugins.holds`; :mod:`~rlcore.plugins.factories` notes who made its objects.
:mod:`~rlcore.plugins.failures` blames plugins for their errors, and :mod:`~rlcore.plugins.known` has names for hints.
"""
