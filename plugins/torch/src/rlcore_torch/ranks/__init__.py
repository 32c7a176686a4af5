"""The processes of a run under ``torchrun``: values and gradients between them, steps, and their one checkpoint."""
