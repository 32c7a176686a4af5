"""``rlcore convert zoo``: an entry of a hyperparameter file of RL Zoo as a configuration of rlcore."""
