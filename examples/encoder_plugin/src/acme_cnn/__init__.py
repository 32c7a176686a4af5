"""A convolutional encoder for the networks of rlcore, and a small image task."""
