"""Networks of policies and critics, and what they are made of."""
