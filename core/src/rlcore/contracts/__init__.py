"""The contracts: classes that plugins implement, and those that a run gives them."""
