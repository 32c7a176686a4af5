"""A trainer around a trainer: in each environment one team learns, and the other one plays as earlier policies.

S slots, of which L learn and P play.
"""

import numpy as np

from rlcore import (
    Actions,
    FrozenState,
    Player,
    TrainerWrapper,
    derive_generator,
    derive_seed,
    fill,
    generator_state,
    restore_generator,
    saved_count,
    saved_mapping,
)
from rlcore_ghost import PolicyMix


class GhostTrainer(TrainerWrapper):
    """A trainer around another one, whose slots are the L that learn.

    Each of the P other agents draws a policy when it begins an episode: the current one, or one of the snapshots.
    """

    def __init__(self, trainer, settings, learning_slots, name, seed):
        super().__init__(trainer)
        self.settings = settings
        self.learning_slots = learning_slots  # [S]
        self.learning = np.flatnonzero(learning_slots)  # [L]
        self.playing = np.flatnonzero(~learning_slots)  # [P]
        self.generator = derive_generator(seed, f"{name}/earlier_selves")
        self.opponent = np.zeros(len(self.playing), np.int64)  # [P] 0: the current policy, k: a snapshot
        self.mix = PolicyMix([trainer.policy], self.opponent)  # then the snapshots
        self.saved = 0  # snapshots ever
        self.frozen = []  # the states of the snapshots that are kept; checkpoints link to them
        self.player = Player(self.mix, len(self.playing), derive_seed(seed, f"{name}/opponents"))

    def begin(self, batch):
        everyone = np.arange(len(self.playing))
        self.draw(everyone)
        self.player.begin()
        self.trainer.begin(batch.take(self.learning))

    def act(self, batch):
        self.mix.policies[0] = self.trainer.policy
        learners = self.trainer.act(batch.take(self.learning))
        players = self.player.act(batch.take(self.playing), deterministic=False)
        return Actions.joined([(self.learning, learners), (self.playing, players)])

    def observe(self, actions, batch):
        of_players = batch.take(self.playing)
        self.player.observe(of_players)
        self.draw(of_players.ended)
        self.trainer.observe(actions.take(self.learning), batch.take(self.learning))

    def draw(self, rows):
        """Draw the policies that the agents in these ``rows`` [K] of the P play as, after a snapshot if one is due."""
        if self.steps >= self.saved * self.settings.save_steps:
            self.save_snapshot()
        count = len(rows)
        latest = self.generator.random(count) < self.settings.play_against_latest_model_ratio
        snapshots = self.generator.integers(1, len(self.mix.policies), count)
        self.opponent[rows] = np.where(latest, 0, snapshots)

    def save_snapshot(self):
        place = self.saved % self.settings.window  # that of the oldest snapshot if the window is full
        snapshot = self.trainer.snapshot()
        # A slice may lie behind the last entry: the list grows until the window is full.
        self.mix.policies[1 + place : 2 + place] = [snapshot]
        self.frozen[place : 1 + place] = [FrozenState(snapshot.state_dict())]
        self.saved += 1

    def state_dict(self):
        earlier_selves = {
            "saved": self.saved,
            "opponent": self.opponent.copy(),
            "generator": generator_state(self.generator),
            "snapshots": list(self.frozen),
            "player": self.player.state_dict(),
        }
        return {**self.trainer.state_dict(), "earlier_selves": earlier_selves}

    def load_state_dict(self, state):
        earlier_selves = saved_mapping(state, "earlier_selves")
        frozen = [FrozenState(snapshot) for snapshot in earlier_selves["snapshots"]]
        snapshots = [self.trainer.snapshot(snapshot) for snapshot in frozen]
        self.trainer.load_state_dict(state)  # an error so far has changed nothing
        fill(self.opponent, earlier_selves, "opponent")
        restore_generator(self.generator, earlier_selves["generator"])
        self.player.load_state_dict(earlier_selves["player"])
        self.mix.policies[1:] = snapshots
        self.frozen = frozen
        self.saved = saved_count(earlier_selves, "saved")
