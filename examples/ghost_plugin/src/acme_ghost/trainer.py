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
        self.settings, self.learning_slots = settings, learning_slots  # [S]
        self.learning, self.playing = np.flatnonzero(learning_slots), np.flatnonzero(~learning_slots)
        self.generator = derive_generator(seed, f"{name}/earlier_selves")
        self.opponent = np.zeros(len(self.playing), np.int64)  # [P] 0: the current policy, k: a snapshot
        self.mix = PolicyMix([trainer.policy], self.opponent)  # then the snapshots
        self.saved, self.frozen = 0, []  # snapshots ever, and the states of those kept, which checkpoints link to
        self.player = Player(self.mix, len(self.playing), derive_seed(seed, f"{name}/opponents"))

    def begin(self, batch):
        self.draw(np.arange(len(self.playing)))
        self.player.begin()
        self.trainer.begin(batch.take(self.learning))

    def act(self, batch):
        self.mix.policies[0] = self.trainer.policy
        own = self.trainer.act(batch.take(self.learning))
        other = self.player.act(batch.take(self.playing), deterministic=False)
        return Actions.joined([(self.learning, own), (self.playing, other)])

    def observe(self, actions, batch):
        seen = batch.take(self.playing)
        self.player.observe(seen)
        self.draw(seen.ended)
        self.trainer.observe(actions.take(self.learning), batch.take(self.learning))

    def draw(self, rows):
        """Draw the policies that the agents in these ``rows`` [K] of the P play as, after a snapshot if one is due."""
        if self.steps >= self.saved * self.settings.save_steps:
            place = 1 + self.saved % self.settings.window  # the oldest one's, if the window is full
            snapshot = self.trainer.snapshot()
            self.mix.policies[place : place + 1] = [snapshot]
            self.frozen[place - 1 : place] = [FrozenState(snapshot.state_dict())]
            self.saved += 1
        latest = self.generator.random(len(rows)) < self.settings.play_against_latest_model_ratio
        self.opponent[rows] = np.where(latest, 0, self.generator.integers(1, len(self.mix.policies), len(rows)))

    def state_dict(self):
        own = {"saved": self.saved, "opponent": self.opponent.copy(), "generator": generator_state(self.generator)}
        own |= {"snapshots": list(self.frozen), "player": self.player.state_dict()}
        return {**self.trainer.state_dict(), "earlier_selves": own}

    def load_state_dict(self, state):
        own = saved_mapping(state, "earlier_selves")
        frozen = [FrozenState(each) for each in own["snapshots"]]
        snapshots = [self.trainer.snapshot(each) for each in frozen]
        self.trainer.load_state_dict(state)  # an error so far has changed nothing
        fill(self.opponent, own, "opponent")
        restore_generator(self.generator, own["generator"])
        self.player.load_state_dict(own["player"])
        self.mix.policies[1:], self.frozen, self.saved = snapshots, frozen, saved_count(own, "saved")
