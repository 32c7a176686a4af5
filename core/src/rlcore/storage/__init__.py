"""The files of a run: its directory, lock and mark, its checkpoints, and the training status."""
