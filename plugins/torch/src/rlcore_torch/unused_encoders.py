"""A warning for an encoder that a configuration names and that has nothing to read."""

from __future__ import annotations

from collections.abc import Iterator

from rlcore import BehaviorSpec, RunContext
from rlcore_torch.networks.settings import NetworkSettings

__all__ = ["unused_encoders"]


def unused_encoders(run: RunContext) -> Iterator[str]:
    """Yield a message for each behavior whose network settings name an encoder for nothing that its agents observe.

    It is not an error: files of ML-Agents share ``default_settings`` between behaviors with and without images.
    """
    for name, spec in run.behaviors.items():
        settings = run.config.behaviors.get(name, run.config.default_settings)
        network = getattr(settings, "network_settings", None)
        if isinstance(network, NetworkSettings):
            for problem in _unused(network, spec):
                yield f"behavior {name!r}: network_settings.{problem}"


def _unused(network: NetworkSettings, spec: BehaviorSpec) -> Iterator[str]:
    kinds = {o.kind for o in spec.observations}
    observed = ", ".join(f"{o.name} of shape {list(o.shape)}" for o in spec.observations)
    if network.vis_encode_type != "simple" and "image" not in kinds:
        advice = ""
        if any(2 <= len(o.shape) <= 4 for o in spec.observations):
            advice = (
                "; in environments of Gymnasium, environment.observations: {NAME: {channels: first}} makes an image of "
                "an array"
            )
        name = network.vis_encode_type
        yield f"vis_encode_type: {name} has no effect, because no observation is an image ({observed}){advice}"
    if network.vector_encode_type is not None and kinds <= {"image", "entities"}:
        name = network.vector_encode_type
        yield f"vector_encode_type: {name} has no effect, because no observation is a vector ({observed})"
