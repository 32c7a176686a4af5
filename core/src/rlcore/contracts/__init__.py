"""What plugins implement and what a run gives them: environments, trainers, policies, rewards, and the rest."""
