"""The settings classes of every block of a configuration, and what a plugin needs to declare its own.

A plugin's settings class derives from the class of its kind and declares each field with :func:`setting`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
