"""The SAC of the tests that train it on a small task: a behavior's block, indented as in a configuration."""

SMALL_SAC = """\
    trainer_type: sac
    network_settings: {hidden_units: 64, activation: relu}
    hyperparameters:
      batch_size: 128
      buffer_size: 20000
      buffer_init_steps: 500
      learning_rate: 1.0e-3
      learning_rate_schedule: linear
      init_entcoef: 0.1
      tau: 0.01
"""
