"""Rows are computed by their own place, whatever the blocks are."""

from __future__ import annotations

import numpy as np
import pytest

from rlcore_torch.policy.row_groups import MOST_PADDING, RowGroups


@pytest.mark.parametrize("places", [1, 3, 9])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.97])  # of rows whose place is the last one
@pytest.mark.parametrize("rows", [1, 7, 64])
def test_every_row_is_computed_once_by_its_place(rows: int, share: float, places: int) -> None:
    generator = np.random.default_rng(rows)
    index = np.where(generator.random(rows) < share, places - 1, generator.integers(-1, places, rows))
    index[0] = places - 1
    groups = RowGroups(index)
    np.testing.assert_array_equal(groups.rows, np.flatnonzero(index >= 0))
    outputs, computed = [], 0
    for block in groups.blocks:
        at = np.arange(block.places.start, block.places.stop)
        assert block.rows.shape[0] == len(at)
        outputs.append(np.stack([np.broadcast_to(at[:, None], block.rows.shape), block.rows], axis=2))
        computed += block.rows.size
    found = groups.in_order([output.astype(np.float32) for output in outputs])
    np.testing.assert_array_equal(found, np.stack([index, np.arange(rows)], axis=1)[groups.rows])
    assert computed <= MOST_PADDING * len(groups.rows)


def test_a_place_with_most_rows_does_not_make_the_others_compute_as_many() -> None:
    groups = RowGroups(np.array([0] * 60 + [1, 2, 3, 7]))
    assert [block.rows.shape for block in groups.blocks] == [(1, 60), (1, 1), (1, 1), (1, 1), (1, 1)]
    assert len(RowGroups(np.arange(64) % 8).blocks) == 1
