"""Shared parts of trainers written in PyTorch. The only part of rlcore that imports torch (extra ``rlcore[torch]``).

Templates to derive a trainer from: ``on_policy``, ``off_policy`` and ``offline``, on the common ground of
``minibatch_trainer`` and ``template``.

- Networks: ``networks``, ``encoders`` (images), ``distributions`` (of continuous actions), ``normalizer``, ``actions``,
  ``discrete_options`` (values of discrete actions), ``policy`` (acting), ``actor_stack`` (frozen policies
  that act together).
- On-policy data: ``rollout``, ``rollout_state``, ``advantages``, ``minibatch``, ``reward_stats``.
- Stored transitions: ``replay``, ``replay_rings``, ``priorities``, ``recorded`` (a replay buffer filled from
  recordings), ``transition_batch`` (n steps), ``stored_rewards`` (statistics).
- Learning: ``optimizer``, ``schedules``, ``imitation`` (``behavioral_cloning``), ``divergence`` (advice where a loss is
  not finite).
- Computing: ``backend`` decides, by ``torch_settings``, between plain PyTorch and ``cpu``, code written by hand for a
  CPU, and whether two losses are computed in two threads.
- The rest: ``memory`` (does it fit), ``saved_networks`` (networks in checkpoints), ``prediction_reward`` (a reward for
  tests of trainers).
"""
