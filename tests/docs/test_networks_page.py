"""The examples of the page about networks do what the text beside them says."""

from __future__ import annotations

import pytest
import torch
from pages import names_of

pytestmark = pytest.mark.documentation


def test_the_example_of_batch_normalization_moves_statistics_once_and_acts_with_them() -> None:
    names = names_of("docs/how-to/networks.md", "import BatchNorm")
    values, joint, acted = names["values"], names["joint"], names["acted"]
    assert names["here"].shape == names["following"].shape == (32, 1)
    hidden = values.hidden(joint).relu()
    torch.testing.assert_close(values.norm.running_mean, 0.01 * hidden.mean(0))
    torch.testing.assert_close(acted, values(joint)[:1])
    assert (acted - names["here"][:1]).abs() > 1e-3
