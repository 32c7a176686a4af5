"""Conformance tests: one class per contract. A plugin inherits from the class and tells it how to create its object."""
