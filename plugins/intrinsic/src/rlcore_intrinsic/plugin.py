"""The hooks of rlcore-intrinsic. Imported whenever rlcore starts, so torch is imported with the targets, not here."""

from __future__ import annotations

from rlcore import RewardProviderSpec, hookimpl


@hookimpl
def rlcore_reward_providers() -> list[RewardProviderSpec]:
    return [
        RewardProviderSpec(
            name="curiosity",
            target="rlcore_intrinsic.curiosity:CuriosityReward",
            settings="rlcore_intrinsic.settings:CuriositySettings",
            summary="a reward for transitions that a model of the environment does not predict (Pathak et al. 2017)",
        ),
        RewardProviderSpec(
            name="gail",
            target="rlcore_intrinsic.gail:GAILReward",
            settings="rlcore_intrinsic.settings:GAILSettings",
            summary="a reward for acting as in recorded episodes (Ho and Ermon 2016)",
        ),
        RewardProviderSpec(
            name="rnd",
            target="rlcore_intrinsic.rnd:RNDReward",
            settings="rlcore_intrinsic.settings:RNDSettings",
            summary="a reward for observations that are new (Burda et al. 2019)",
        ),
    ]
