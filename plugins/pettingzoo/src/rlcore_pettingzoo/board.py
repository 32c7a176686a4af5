"""Shows a game in a terminal: what the game itself draws as text, else the observation of a player."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pettingzoo
from numpy.typing import NDArray

from rlcore import BehaviorSpec, ObservationSpec

Observations = Mapping[str, NDArray[Any]]
Mask = NDArray[np.bool_] | None

MARKS = "XO#@%&"  # of the planes of a board
MOST_NUMBERS = 40  # of an observation that is not a board


class LastView(pettingzoo.utils.BaseWrapper):  # type: ignore[misc]
    """Keeps the drawing of the last position, which the next reset would replace."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.begun = False
        self.last_position = ""  # the last position of the game before this one

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        if self.begun:
            self.last_position = drawn(self.env)
        self.begun = True
        super().reset(seed=seed, options=options)


def drawn(game: Any) -> str:
    """Return what the game draws as text; an empty text if it does not."""
    if getattr(game, "render_mode", None) != "ansi":
        return ""
    text = game.render()
    return text.rstrip("\n") if isinstance(text, str) else ""


def view_of(game: Any, agent: str, spec: BehaviorSpec, observations: Observations, mask: Mask) -> str:
    """Return what ``agent`` may see of a game, with its ``observations`` by name, each [*shape].

    A game with a method ``text_for(agent)`` says it itself; a drawing may show more than the agent may know.
    """
    if hasattr(game, "text_for"):
        return str(game.text_for(agent))
    return drawn(game) or as_text(spec, observations, mask)


def as_text(spec: BehaviorSpec, observations: Observations, mask: Mask) -> str:
    """Return the ``observations`` of one agent, each [*shape], as text."""
    texts = []
    for part in spec.observations:
        texts.append(_observation_text(part, observations[part.name], mask))
    return "\n".join(texts)


def _observation_text(spec: ObservationSpec, values: NDArray[Any], mask: Mask) -> str:
    has_planes = len(spec.shape) == 3 and spec.shape[2] <= len(MARKS)
    if has_planes and np.isin(values, (0, 1)).all():
        return _board(values, mask)
    numbers = values.ravel()
    if spec.kind == "one_hot":
        chosen = np.flatnonzero(numbers)
        return f"{spec.name}: {', '.join(map(str, chosen))}"
    first = " ".join(f"{number:g}" for number in numbers[:MOST_NUMBERS])
    rest = f" ... ({len(numbers)} numbers)" if len(numbers) > MOST_NUMBERS else ""
    return f"{spec.name}: {first}{rest}"


def _board(planes: NDArray[Any], mask: Mask) -> str:
    """Draw [rows, columns, planes]: a mark for each plane, and on free fields the action that takes the field."""
    rows, columns, count = planes.shape
    fields = np.full((rows, columns), ".", "U8")
    if mask is not None and len(mask) == fields.size:  # an action for each field, as in tic-tac-toe
        actions = np.flatnonzero(mask)
        np.place(fields, mask, actions.astype("U8"))
    for plane, mark in enumerate(MARKS[:count]):
        fields[planes[:, :, plane] != 0] = mark
    if mask is not None and len(mask) == columns:  # an action for each column, as in Connect Four
        header = np.arange(columns).astype(str)
        fields = np.vstack([header, fields])
    width = int(np.char.str_len(fields).max())
    aligned = np.char.rjust(fields, width)
    lines = [" ".join(row) for row in aligned.tolist()]
    if count > 1:
        lines.append(f"({MARKS[0]} is yours)")
    return "\n".join(lines)
