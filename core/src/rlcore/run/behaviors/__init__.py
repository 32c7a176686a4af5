"""A behavior while it runs: its trainer, its open episodes, and the checks of its batches and actions."""
