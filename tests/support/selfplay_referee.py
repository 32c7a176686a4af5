"""Exact referees of the games in :mod:`selfplay_games`: how far policies are from an equilibrium, and what they score.

A policy is turned into a table of probabilities by asking it in every state, so nothing is sampled. *NashConv* is the
sum over seats of what a best response to the others would gain; 0 in an equilibrium. Exploitability is NashConv
divided by the number of seats.

A *mixture* of k policies draws one of them before a game and plays it to the end, so its score against any opponent
is the mean of theirs. In Kuhn poker a mixture equals one table, in which each policy counts in proportion to how
likely its own moves lead to a state; the plain mean of the tables would be another policy.

OpenSpiel is needed for the functions about Kuhn poker alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray
from selfplay_games.tictactoe import LINES, seen_by

Floats = NDArray[np.float64]
KuhnTable = Mapping[str, Floats]
"""Probabilities [2] of pass and bet by OpenSpiel's information state string, for all seats."""


def probabilities(policy: Any, observations: Mapping[str, NDArray[Any]], mask: Any = None) -> Floats:
    """Return how likely a policy chooses each option of its only branch, [R, options], for R rows.

    ``policy`` is a :class:`rlcore_torch.ActorPolicy` without memory, as of PPO and SAC. A draw adds Gumbel noise
    to its logits, so the probabilities are their softmax.
    """
    if policy.memory_size:
        raise ValueError("the policy has memory: its probabilities depend on earlier steps")
    _, logits = policy.parameters(observations, mask)
    scores = logits.astype(np.float64)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float64)


# ------------------------------------------------------------ matrix games


def one_step_strategy(policy: Any) -> Floats:
    """Return the probabilities [options] of a policy in a one-step game."""
    return np.asarray(probabilities(policy, {"constant": np.ones((1, 1), np.float32)})[0])


def matrix_value(payoffs: Floats, row: Floats, column: Floats) -> float:
    """Return what the row player gets; ``payoffs`` [A, A'] are his, ``row`` [A] and ``column`` [A'] probabilities."""
    return float(row @ payoffs @ column)


def matrix_nash_conv(payoffs: Floats, row: Floats, column: Floats) -> float:
    """Return the NashConv of two strategies in the zero-sum game with the row player's ``payoffs`` [A, A']."""
    return float((payoffs @ column).max() - (row @ payoffs).min())


# ------------------------------------------------------------ Kuhn poker


@attrs.frozen(eq=False)
class KuhnStates:
    """The information states of Kuhn poker: 12 of two players, 48 of three.

    Attributes:
        game: OpenSpiel's game.
        names: [I] information state strings.
        seats: [I] the seat that acts.
        observations: [I, size] what the agent sees.
    """

    game: Any
    names: tuple[str, ...]
    seats: NDArray[np.int64]
    observations: NDArray[np.float32]


@cache
def kuhn_states(players: int = 2) -> KuhnStates:
    """Return the information states of the game of ``players``."""
    import pyspiel

    game = pyspiel.load_game(f"kuhn_poker(players={players})")
    found: dict[str, tuple[int, list[float]]] = {}

    def visit(state: Any) -> None:
        if state.is_terminal():
            return
        if not state.is_chance_node():
            found[state.information_state_string()] = (state.current_player(), state.information_state_tensor())
        for action in state.legal_actions():
            visit(state.child(action))

    visit(game.new_initial_state())
    seats, tensors = zip(*found.values(), strict=True)
    return KuhnStates(game, tuple(found), np.array(seats, np.int64), np.array(tensors, np.float32))


def kuhn_table(policies: Any, players: int = 2) -> dict[str, Floats]:
    """Return the table of one policy that plays all seats, or of a sequence of policies, one for each seat."""
    states = kuhn_states(players)
    of_seats = policies if isinstance(policies, Sequence) else [policies] * players
    table: dict[str, Floats] = {}
    for seat, policy in enumerate(of_seats):
        rows = np.flatnonzero(states.seats == seat)
        chosen = probabilities(policy, {"information": states.observations[rows]}, np.ones((len(rows), 2), np.bool_))
        table.update({states.names[row]: each for row, each in zip(rows, chosen, strict=True)})
    return table


def kuhn_mixture(tables: Sequence[KuhnTable], players: int = 2) -> dict[str, Floats]:
    """Return the table that equals the uniform mixture of each seat's policies in ``tables``.

    At a state, each table counts in proportion to the probability that the seat's own moves lead there.
    """
    states = kuhn_states(players)
    weights: dict[str, Floats] = {}  # [k] how likely each table's own moves lead to a state

    def visit(state: Any, reach: Floats) -> None:
        if state.is_terminal():
            return
        if state.is_chance_node():
            for card in state.legal_actions():
                visit(state.child(card), reach)
            return
        name, seat = state.information_state_string(), state.current_player()
        weights[name] = reach[seat]
        for action in state.legal_actions():
            after = reach.copy()
            after[seat] *= [table[name][action] for table in tables]
            visit(state.child(action), after)

    visit(states.game.new_initial_state(), np.ones((players, len(tables))))
    mixed = {}
    for name, weight in weights.items():
        weight = weight if weight.any() else np.ones_like(weight)  # never reached: any probabilities will do
        mixed[name] = np.average([table[name] for table in tables], axis=0, weights=weight)
    return mixed


def kuhn_nash_conv(table: KuhnTable, players: int = 2) -> float:
    """Return the NashConv of a table, by OpenSpiel."""
    from open_spiel.python.algorithms import exploitability

    return float(exploitability.nash_conv(kuhn_states(players).game, _tabular(table, players)))


def kuhn_values(table: KuhnTable, players: int = 2) -> Floats:
    """Return the mean chips that each seat wins, [P], if all play by the table, by OpenSpiel."""
    from open_spiel.python.algorithms import expected_game_score

    start, policy = kuhn_states(players).game.new_initial_state(), _tabular(table, players)
    return np.asarray(expected_game_score.policy_value(start, [policy] * players))


def _tabular(table: KuhnTable, players: int) -> Any:
    from open_spiel.python import policy

    tabular = policy.TabularPolicy(kuhn_states(players).game)
    for name, probabilities in table.items():
        tabular.policy_for_key(name)[:] = probabilities
    return tabular


# ------------------------------------------------------------ tic-tac-toe


@attrs.frozen(eq=False)
class Boards:
    """All 5,478 boards of tic-tac-toe that can be reached, in the order of their number of marks.

    Attributes:
        boards: [B, 9] 1 is X, -1 is O.
        ply: [B] marks on the board; X moves if it is even.
        winner: [B] 1 if X has won, -1 if O has, else 0.
        over: [B] whether the game has ended.
        child: [B, 9] index of the board after a move into a cell; -1 where no move is allowed.
    """

    boards: NDArray[np.int64]
    ply: NDArray[np.int64]
    winner: NDArray[np.int64]
    over: NDArray[np.bool_]
    child: NDArray[np.int64]

    @property
    def allowed(self) -> NDArray[np.bool_]:
        """Whether a move is allowed, [B, 9]."""
        return self.child >= 0


@cache
def tictactoe_boards() -> Boards:
    """Return all boards; the first one is empty."""
    levels, children, offset = [np.zeros((1, 9), np.int64)], [], 0
    for ply in range(10):
        boards = levels[-1]
        child = np.full(boards.shape, -1)
        open_cells = (boards == 0) & ~(_winner(boards) != 0)[:, None]
        rows, cells = np.nonzero(open_cells)
        offset += len(boards)
        if len(rows):
            after = boards[rows]
            after[np.arange(len(rows)), cells] = 1 - 2 * (ply % 2)
            unique, index = np.unique(after, axis=0, return_inverse=True)
            child[rows, cells] = offset + index.ravel()
            levels.append(unique)
        children.append(child)
    boards, winner = np.concatenate(levels), _winner(np.concatenate(levels))
    child = np.concatenate(children)
    return Boards(boards, np.abs(boards).sum(1), winner, (child < 0).all(1), child)


def _winner(boards: NDArray[np.int64]) -> NDArray[np.int64]:
    sums = boards @ LINES.T.astype(np.int64)
    return (sums == 3).any(1).astype(np.int64) - (sums == -3).any(1)


def tictactoe_table(policies: Any) -> Floats:
    """Return the probabilities [B, 9] of one policy that plays both seats, or of a pair (X, O), on every board."""
    boards = tictactoe_boards()
    table = np.zeros(boards.boards.shape)
    for seat, policy in enumerate(policies if isinstance(policies, Sequence) else (policies, policies)):
        rows = np.flatnonzero((boards.ply % 2 == seat) & ~boards.over)
        seen = seen_by(boards.boards[rows], np.full(len(rows), seat))
        table[rows] = probabilities(policy, {"board": seen}, boards.allowed[rows])
    return table


def tictactoe_uniform() -> Floats:
    """Return the table [B, 9] of uniform play."""
    allowed = tictactoe_boards().allowed
    return np.asarray(allowed / np.maximum(allowed.sum(1, keepdims=True), 1))


def tictactoe_minimax() -> Floats:
    """Return the table [B, 9] of perfect play, uniform over all moves that keep the game's value."""
    boards = tictactoe_boards()
    values = boards.winner.astype(np.float64)
    best = np.zeros(boards.child.shape)
    for rows in _from_the_end():
        sign = 1 - 2 * (boards.ply[rows[0]] % 2)
        options = np.where(boards.allowed[rows], sign * values[boards.child[rows]], -np.inf)
        values[rows] = sign * options.max(1)
        best[rows] = options == options.max(1, keepdims=True)
    return np.asarray(best / np.maximum(best.sum(1, keepdims=True), 1))


def tictactoe_result(x: Floats, o: Floats) -> tuple[float, float, float]:
    """Return the probabilities that X wins, of a draw, and that O wins, if tables [B, 9] play each other."""
    boards = tictactoe_boards()
    reach = np.zeros(len(boards.boards))
    reach[0] = 1.0
    for rows in reversed(list(_from_the_end())):
        table = x if boards.ply[rows[0]] % 2 == 0 else o
        nodes, cells = np.nonzero(boards.allowed[rows])
        np.add.at(reach, boards.child[rows][nodes, cells], (reach[rows, None] * table[rows])[nodes, cells])
    ends = np.where(boards.over, reach, 0.0)
    wins, losses = float(ends[boards.winner > 0].sum()), float(ends[boards.winner < 0].sum())
    return wins, float(ends.sum()) - wins - losses, losses


def tictactoe_score(table: Floats, opponent: Floats) -> float:
    """Return wins plus half the draws of a table against another one, the mean of both seats."""
    first, second = tictactoe_result(table, opponent), tictactoe_result(opponent, table)
    return (first[0] + first[1] / 2 + second[2] + second[1] / 2) / 2


@cache
def _from_the_end() -> tuple[NDArray[np.int64], ...]:
    """Boards that have not ended, of 8 marks, of 7 marks, and so on."""
    boards = tictactoe_boards()
    return tuple(np.flatnonzero((boards.ply == ply) & ~boards.over) for ply in reversed(range(9)))
