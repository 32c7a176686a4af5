"""Numbers in the infos of ended episodes, such as ``is_success``; ``environment.info`` names those to report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rlcore_gymnasium.spaces.values import REAL_KINDS, MismatchedValue, text_of

__all__ = ["Wanted", "final_info", "final_info_of_vector"]

Wanted = Sequence[str] | Literal["all"] | None
"""``environment.info``: names, ``"all"``, or None for no number at all."""

FinalInfo = dict[str, NDArray[np.float64]] | None
"""``AgentBatch.final_info``: [K] by name, NaN for an episode without the number."""


def final_info(infos: Sequence[Mapping[str, Any] | None], wanted: Wanted) -> FinalInfo:
    """Return the numbers in the last infos of K episodes.

    Raises MismatchedValue for a named value that is not a number.
    """
    if not wanted or not infos:
        return None
    if wanted == "all":
        names = [name for info in infos for name, value in (info or {}).items() if _is_number(value)]
    else:
        names = list(wanted)
    columns = {name: np.full(len(infos), np.nan) for name in names}
    for row, info in enumerate(infos):
        for name, column in columns.items():
            value = (info or {}).get(name)
            if value is None:
                continue
            if _is_number(value):
                column[row] = value
            elif wanted != "all":
                raise MismatchedValue(
                    f"the info {name!r} as {text_of(value)}; expected a number, because environment.info or final_info "
                    "names it"
                )
    return columns or None


def final_info_of_vector(info: Any, rows: NDArray[np.intp], wanted: Wanted) -> FinalInfo:
    """Return the numbers of the environments ``rows`` [K] in the info of a vectorized form.

    There, an entry is an array [N], and the entry ``_NAME`` is a mask [N] of the environments that have it.
    """
    if not wanted or not rows.size or not isinstance(info, Mapping):
        return None
    columns: dict[str, NDArray[np.float64]] = {}
    for name in info if wanted == "all" else wanted:
        value = info.get(name)
        if name.startswith("_") or not isinstance(value, np.ndarray) or value.ndim != 1:
            continue
        infos = [{name: number} for number in value[rows]]
        column = (final_info(infos, "all") or {}).get(name)
        if column is None:
            continue
        has = info.get(f"_{name}")
        if has is not None:  # Gymnasium fills the rows of all others with zeros
            column[~np.asarray(has, np.bool_)[rows]] = np.nan
        columns[name] = column
    return columns or None


def _is_number(value: Any) -> bool:
    # A bool is an int, and counts as 0 or 1: the mean of `is_success` is a share of episodes.
    if isinstance(value, float | int):
        return True
    return isinstance(value, np.generic | np.ndarray) and value.shape == () and value.dtype.kind in REAL_KINDS
