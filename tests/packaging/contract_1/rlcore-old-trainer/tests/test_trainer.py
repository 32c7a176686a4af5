from rlcore.testing import TrainerConformance


class TestTrainer(TrainerConformance):
    trainer = "rlcore-old-trainer/old-trainer"
    hyperparameters = {"buffer_size": 256}
    learns_within = 30_000
