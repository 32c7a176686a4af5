"""Faster ways of computing what trainers compute; trainers and networks do not know of them."""
