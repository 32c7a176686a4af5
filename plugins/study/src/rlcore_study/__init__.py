"""Studies of rlcore: several runs side by side, and comparisons of configurations over seeds."""
