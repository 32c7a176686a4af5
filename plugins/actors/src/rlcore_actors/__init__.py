"""Actors: environments and copies of the policy in other processes, which play fragments while the run learns.

In reading order: :mod:`~rlcore_actors.contract` (fragments, and what a trainer offers), :mod:`~rlcore_actors.vtrace`,
:mod:`~rlcore_actors.trainer` (APPO and IMPALA), :mod:`~rlcore_actors.fragments` (the rollout of the learner),
:mod:`~rlcore_actors.playing` (what an actor does), :mod:`~rlcore_actors.source` (who has the actors),
:mod:`~rlcore_actors.environment` (all actors as the environment of the run), :mod:`~rlcore_actors.messages` (what goes
between both), :mod:`~rlcore_actors.hub` (places of actors, and what follows when one is gone),
:mod:`~rlcore_actors.connections` (the end of the learner) and :mod:`~rlcore_actors.program` (the end of an actor).
"""
