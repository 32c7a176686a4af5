"""``rlcore plugins new`` writes a complete distribution: kinds are described in ``kinds.toml``, files in ``templates``.

``names`` and ``about`` check what a user chose, and ``writing`` renders the templates with Jinja.
"""
