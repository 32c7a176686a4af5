"""The shared parts of trainers in PyTorch: templates, networks, replay buffers, optimizers.

Importing this package is cheap: each name is imported from its module on first use. ``__init__.pyi`` lists the names.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
