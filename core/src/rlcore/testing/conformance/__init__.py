"""One class of tests for each contract: a plugin inherits it and says how its object is made."""
