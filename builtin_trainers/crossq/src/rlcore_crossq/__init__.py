"""CrossQ, a plugin of rlcore: soft actor-critic without target networks, with batch normalization."""
