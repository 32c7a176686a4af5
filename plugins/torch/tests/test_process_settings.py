"""Settings of PyTorch that the import of a plugin changes are noticed, and the plugin is named."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from rlcore import load_plugins
from rlcore_devkit.fixtures import InstallPlugin, installed_plugin

__all__ = ["installed_plugin"]


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    dtype = torch.get_default_dtype()
    yield
    torch.set_default_dtype(dtype)


def test_a_light_module_that_changes_pytorch_is_named(installed_plugin: InstallPlugin) -> None:
    """The plugin comes before rlcore-torch in the alphabet, and is imported after it all the same."""
    source = "import torch\nfrom rlcore import hookimpl\ntorch.set_default_dtype(torch.float64)\n"
    installed_plugin("all-double", "acme-double", "1", source)
    (warning,) = [line for line in load_plugins().warnings if "all-double" in line]
    assert warning.startswith(
        "plugin 'all-double' (acme-double 1) changed torch.get_default_dtype() at import, from 'torch.float32' to "
        "'torch.float64'"
    )
