"""rlcore: reinforcement learning whose trainers, rewards, writers and environments are plugins.

What authors of plugins and programs need is imported from here; ``__init__.pyi`` lists the names with their modules,
which may move from one version to the next. Importing this package is cheap: each name is imported on first use.
"""

import lazy_loader

__version__ = "0.1.0"
"""The version of rlcore."""

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
