"""Skills for coding agents, and the command that installs them."""
