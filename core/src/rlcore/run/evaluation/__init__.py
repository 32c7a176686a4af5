"""Evaluations: playing whole episodes with policies that do not learn, and which evaluation of a run is the best."""
