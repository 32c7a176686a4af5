"""For authors of plugins: conformance classes to inherit from, and environments with known best returns.

pytest finds the fixtures of :mod:`rlcore_devkit.fixtures` where this distribution is installed. Importing this package
is cheap: each name is imported from its module on first use. ``__init__.pyi`` lists the names.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
