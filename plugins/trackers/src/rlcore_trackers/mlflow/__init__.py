"""MLflow as a statistics writer of rlcore."""
