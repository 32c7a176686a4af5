pytest_plugins = ["rlcore.testing"]
