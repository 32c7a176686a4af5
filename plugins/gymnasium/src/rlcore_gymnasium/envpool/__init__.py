"""Environments of EnvPool, whose threads in C++ step all environments of a run."""
