"""The curricula of a run: what each environment's episodes begin with, and what is saved of that."""
