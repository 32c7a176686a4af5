"""``rlcore sweep``: trials of a configuration with other values, in directories from which a sweep continues."""
