"""What trainers written in PyTorch share: networks, action distributions, normaliser, buffers, training templates.

This is the only part of rlcore that imports torch (extra ``rlcore[torch]``).
"""
