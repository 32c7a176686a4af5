"""``rlcore plugins new`` writes a complete distribution from the templates in ``rlcore/plugins/templates``.

``kinds`` has the kinds of plugins, ``names`` and ``about`` check what a user chose, ``writing`` fills the templates.
"""
