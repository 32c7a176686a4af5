"""Self-play: agents of one team learn, and the others play as earlier policies.

- Games: ``open_games.py`` says when a game is over and who won, ``sides.py`` the same where an environment holds
  several games, and ``finished_games.py`` puts the games of all processes in one order.
- Opponents: ``ghosts.py`` says when they change, ``pool.py`` which policies there are, ``samplers.py`` which of them is
  chosen, and ``league.py`` has opponents that learn to exploit.
- Ratings: ``match_log.py`` keeps all matches, ``elo.py`` has the live ratings, and ``learner_results.py`` the results
  against each opponent.
- The learning team: ``learning_team.py``. ``trainer.py`` says which agents learn, and ``seats.py`` into which rows of
  the inner trainer their data goes.

``controller.py`` holds what all behaviors of a run share, and ``creation.py`` makes the trainers from a configuration.
"""
