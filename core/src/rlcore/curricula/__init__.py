"""Connect curricula to runs: the values of each environment, and the draw that each open episode uses."""
