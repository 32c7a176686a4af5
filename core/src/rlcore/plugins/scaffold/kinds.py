"""The kinds of plugins that ``rlcore plugins new`` writes."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from rlcore.plugins.known import PACKAGES

_GYMNASIUM = PACKAGES["environment", "gymnasium"]
_PETTINGZOO = PACKAGES["environment", "pettingzoo"]
_PPO = PACKAGES["trainer", "ppo"]
_SAC = PACKAGES["trainer", "sac"]
_CURRICULUM = PACKAGES["curriculum", "lessons"]


@attrs.frozen(kw_only=True)
class Kind:
    """How to write, describe and use one kind of plugin.

    Attributes:
        noun: The word for it, with its article.
        record: The kind of its record, as in ``rlcore plugins list --provides``; "" if another plugin has the registry.
        does: What the template does, in a few words.
        words: Endings of the name of its class. The first is added unless the plugin's name ends with one of them.
        modules: Its modules beside ``plugin`` and ``settings``, and what they contain; the first has its class.
        contract: The protocol or base class that the class implements, where its methods are documented.
        conformance: The class that its tests inherit from: a name of :mod:`rlcore_devkit`, or a path.
        page: The page of the documentation, without its ending.
        imports: Requirements that its code imports, beside rlcore.
        torch: Whether its code imports PyTorch.
        builds_on: Other distributions of rlcore that its code imports.
        needs: The distributions that its example needs beside rlcore and the plugin.
        usage: The block of a configuration that uses it, or ""; ``{name}`` and ``{key}`` are replaced.
        commands: What to run after the example; ``{name}`` and ``{run_id}`` are replaced.
        required: The block that every run needs while the package is installed, or ""; ``{key}`` is replaced.
        settings: Whether it has a settings class.
        settings_of: The word for what its settings are of, if that is not its class; among several kinds it names them.
    """

    noun: str
    record: str
    does: str
    words: tuple[str, ...]
    modules: Mapping[str, str]
    contract: str
    conformance: str
    page: str
    imports: tuple[str, ...] = ("attrs", "numpy")
    torch: bool = False
    builds_on: tuple[str, ...] = ()
    needs: tuple[str, ...]
    usage: str
    commands: tuple[str, ...] = ()
    required: str = ""
    settings: bool = True
    settings_of: str = ""

    @property
    def module(self) -> str:
        """The module of its class."""
        return next(iter(self.modules))

    @property
    def summary(self) -> str:
        """``"a trainer: ..."``"""
        return f"{self.noun}: {self.does}"

    @property
    def title(self) -> str:
        """``"A trainer for rlcore: ..."``"""
        return f"{self.noun[0].upper()}{self.noun[1:]} for rlcore: {self.does}"


KINDS = {
    "trainer": Kind(
        noun="a trainer",
        record="trainer",
        does="a linear actor-critic on discrete actions, in NumPy",
        words=("Trainer",),
        modules={"trainer": "the trainer"},
        contract="rlcore.contracts.trainer.Trainer",
        conformance="TrainerConformance",
        page="tutorial/first-trainer",
        needs=(_GYMNASIUM,),
        usage="behaviors:\n  Walker:\n    trainer_type: {name}",
    ),
    "torch-trainer": Kind(
        noun="a trainer",
        record="trainer",
        does="advantage actor-critic in PyTorch, on rlcore's on-policy template",
        words=("Trainer",),
        modules={"trainer": "the trainer: a network and a loss"},
        contract="rlcore_torch.OnPolicyTrainer",
        conformance="TrainerConformance",
        page="tutorial/algorithm",
        imports=("attrs",),
        torch=True,
        needs=(_GYMNASIUM,),
        usage="behaviors:\n  Walker:\n    trainer_type: {name}",
    ),
    "off-policy-trainer": Kind(
        noun="a trainer",
        record="trainer",
        does="deep Q-learning for discrete actions, on the off-policy template",
        words=("Trainer",),
        modules={"trainer": "the trainer: networks, exploration and a gradient step"},
        contract="rlcore_torch.OffPolicyTrainer",
        conformance="TrainerConformance",
        page="tutorial/algorithm",
        torch=True,
        needs=(_GYMNASIUM,),
        usage="behaviors:\n  Walker:\n    trainer_type: {name}",
    ),
    "continuous-trainer": Kind(
        noun="a trainer",
        record="trainer",
        does="deterministic policy gradients, on the off-policy template",
        words=("Trainer",),
        modules={"trainer": "the trainer: networks, exploration and a gradient step"},
        contract="rlcore_torch.OffPolicyTrainer",
        conformance="TrainerConformance",
        page="tutorial/algorithm",
        torch=True,
        needs=(_GYMNASIUM,),
        usage="behaviors:\n  Walker:\n    trainer_type: {name}",
    ),
    "reward": Kind(
        noun="a reward",
        record="reward",
        does="a constant for every step",
        words=("Reward",),
        modules={"reward": "the reward"},
        contract="rlcore.contracts.rewards.RewardProvider",
        conformance="RewardProviderConformance",
        page="how-to/reward",
        needs=(_GYMNASIUM, _PPO),
        usage="behaviors:\n  Walker:\n    reward_signals:\n      extrinsic: {{}}\n      {name}: {{}}",
    ),
    "stats": Kind(
        noun="a statistics writer",
        record="writer",
        does="one line of CSV for each statistic",
        words=("Writer",),
        modules={"writer": "the writer"},
        contract="rlcore.contracts.stats.StatsWriter",
        conformance="StatsWriterConformance",
        page="how-to/stats-writer",
        imports=("attrs",),
        needs=(_GYMNASIUM, _PPO),
        usage="stats:\n  {name}: {{}}",
    ),
    "env": Kind(
        noun="an environment",
        record="environment",
        does="walk along a line to a goal",
        words=("Environment", "Env"),
        modules={"environment": "the environment"},
        contract="rlcore.contracts.environment.Environment",
        conformance="EnvironmentConformance",
        page="how-to/environment",
        needs=(_PPO,),
        usage="environment:\n  type: {name}",
    ),
    "curriculum": Kind(
        noun="a curriculum",
        record="curriculum",
        does="a ladder of values, up after successes, down after a failure",
        words=("Curriculum",),
        modules={"curriculum": "the curriculum"},
        contract="rlcore.contracts.curriculum.Curriculum",
        conformance="CurriculumConformance",
        page="how-to/write-curriculum",
        needs=(_GYMNASIUM, _PPO),
        usage="environment_parameters:\n  length:\n    curriculum: "
        "{{type: {name}, rungs: [0.25, 0.5, 1.0], success: 60}}",
    ),
    "sampler": Kind(
        noun="a sampler of environment parameters",
        record="",  # rlcore-curriculum has the registry
        does="the greater a value, the more likely",
        words=("Sampler",),
        modules={"sampler": "the sampler"},
        contract="rlcore_curriculum.records.SamplerSpec",
        conformance="rlcore_curriculum.testing.SamplerConformance",
        page="how-to/curriculum",
        builds_on=(_CURRICULUM,),
        needs=(_GYMNASIUM, _PPO),
        usage="environment_parameters:\n  length:\n    sampler_type: {name}\n"
        "    sampler_parameters: {{low: 0.25, high: 1.0}}",
    ),
    "hooks": Kind(
        noun="a company's package",
        record="writer",
        does="a writer, a block, a command and a status section",
        words=("Writer",),
        modules={"writer": "the statistics writer", "command": "the command"},
        contract="rlcore.contracts.stats.StatsWriter",
        conformance="StatsWriterConformance",
        page="how-to/company-package",
        imports=("attrs", "click"),
        needs=(_GYMNASIUM, _PPO),
        usage="stats:\n  {name}: {{}}",
        required="{key}:\n  owner: vision",
        commands=("rlcore {name} {run_id}",),
        settings_of="Block",
    ),
    "exporter": Kind(
        noun="an exporter of policies",
        record="exporter",
        does="programs of torch.export, which run without rlcore",
        words=("Exporter",),
        modules={"exporter": "the exporter"},
        contract="rlcore.contracts.exporters.Exporter",
        conformance="ExporterConformance",
        page="how-to/export",
        torch=True,
        needs=(_GYMNASIUM, _PPO),
        usage="export:\n  {name}: {{}}",
        commands=("rlcore export {run_id} --format {name}",),
    ),
    "recording": Kind(
        noun="a recording format",
        record="recording",
        does="recorded episodes as one NumPy archive for each behavior",
        words=("Format",),
        modules={"recordings": "the format"},
        contract="rlcore.contracts.recordings.RecordingFormat",
        conformance="RecordingFormatConformance",
        page="how-to/recordings",
        needs=(_GYMNASIUM, _PPO),
        usage="",
        commands=("rlcore evaluate {run_id} --episodes 20 --record recorded --record-format {name}",),
        settings=False,
    ),
    "opponent": Kind(
        noun="an opponent",
        record="opponent",
        does="plays the first option that is allowed, with mistakes",
        words=("Opponent",),
        modules={"opponent": "the opponent"},
        contract="rlcore.contracts.policy.Policy",
        conformance="OpponentConformance",
        page="how-to/opponents",
        builds_on=("rlcore-ghost",),
        needs=(f"{_PETTINGZOO}[classic]", _PPO),
        usage="evaluation:\n  opponents:\n    {name}: {{}}",
        commands=("rlcore evaluate {run_id} --opponent {name}",),
    ),
    "replay-sampler": Kind(
        noun="a replay sampler",
        record="replay_sampler",
        does="of two transitions the one with the larger reward",
        words=("Sampler",),
        modules={"replay_sampler": "the sampler"},
        contract="rlcore_torch.ReplaySampler",
        conformance="ReplaySamplerConformance",
        page="how-to/replay-sampler",
        torch=True,
        needs=(_GYMNASIUM, _SAC),
        usage="behaviors:\n  Walker:\n    trainer_type: sac\n    hyperparameters:\n"
        "      replay_sampler: {{type: {name}}}",
    ),
    "encoder": Kind(
        noun="an encoder of vector observations",
        record="encoder",
        does="layers with layer normalization",
        words=("Encoder",),
        modules={"encoder": "the encoder"},
        contract="rlcore_torch.EncoderSpec",
        conformance="EncoderConformance",
        page="how-to/networks",
        imports=("attrs",),
        torch=True,
        needs=(_GYMNASIUM, _PPO),
        usage="behaviors:\n  Walker:\n    network_settings:\n      vector_encode_type: {name}",
    ),
    "distribution": Kind(
        noun="a distribution of continuous actions",
        record="action_distribution",
        does="logistic, with heavy tails",
        words=("Distribution",),
        modules={"distribution": "the distribution"},
        contract="rlcore_torch.ActionDistribution",
        conformance="ActionDistributionConformance",
        page="how-to/networks",
        imports=("attrs",),
        torch=True,
        needs=(_GYMNASIUM, _PPO),
        usage="behaviors:\n  Walker:\n    network_settings:\n      action_distribution: {name}",
    ),
    "optimizer": Kind(
        noun="an optimizer",
        record="optimizer",
        does="gradient descent with momentum",
        words=("Optimizer",),
        modules={"optimizer": "the optimizer"},
        contract="rlcore_torch.OptimizerSpec",
        conformance="OptimizerConformance",
        page="how-to/optimizers",
        imports=("attrs",),
        torch=True,
        needs=(_GYMNASIUM, _PPO),
        usage="behaviors:\n  Walker:\n    hyperparameters:\n      optimizer: {{type: {name}}}",
    ),
    "schedule": Kind(
        noun="a schedule",
        record="schedule",
        does="four equal stairs",
        words=("Schedule",),
        modules={"schedule": "the schedule"},
        contract="rlcore_torch.ScheduleSpec",
        conformance="ScheduleConformance",
        page="how-to/optimizers",
        imports=(),
        needs=(_GYMNASIUM, _PPO),
        usage="behaviors:\n  Walker:\n    hyperparameters:\n      learning_rate_schedule: {name}",
        settings=False,
    ),
}
