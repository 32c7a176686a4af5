"""Optimizers, schedules, and gradient steps."""
