"""What a run keeps on disk: its directory, lock and mark, checkpoints, the training status."""
