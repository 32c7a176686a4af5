"""``python -m rlcore``: the command ``rlcore``, for ``torchrun -m rlcore run CONFIG``."""

from rlcore.cli.main import process

if __name__ == "__main__":
    process()
