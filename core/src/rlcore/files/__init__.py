"""Files that are read within bounds and written atomically, and paths that users write."""
