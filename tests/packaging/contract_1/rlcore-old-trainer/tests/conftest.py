pytest_plugins = ["rlcore_devkit"]
