"""Self-play: agents of one team learn, and the others play as earlier policies."""
