"""Environments whose observations are tensors on one device, and how a run uses them."""
