"""Messages between ranks: trees of arrays and JSON values as bytes, and back."""

from __future__ import annotations

import numpy as np
import pytest

from rlcore_torch.messages import decoded, encoded


def test_a_message_is_the_tree_that_was_sent() -> None:
    tree = {
        "empty": np.zeros((0, 3), np.float32),
        "scalar": np.array(2.5),
        "flags": np.array([True, False]),
        "list": [1, None, "text", {"deep": np.arange(6).reshape(2, 3)}],
        "number": np.int64(7),
        "nothing": {},
    }
    back = decoded(encoded(tree))
    np.testing.assert_equal(back, tree)
    assert (back["empty"].dtype, back["empty"].shape, back["scalar"].shape) == (np.float32, (0, 3), ())
    back["flags"][0] = False  # received arrays can be written to


def test_an_object_is_not_sent() -> None:
    with pytest.raises(TypeError, match="neither an array nor a JSON value"):
        encoded({"policy": object()})
