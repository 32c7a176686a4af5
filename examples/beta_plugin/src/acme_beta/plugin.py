"""The hook that announces the distribution. Imported whenever rlcore starts, so torch is imported with the target."""

from __future__ import annotations

from rlcore import hookimpl
from rlcore_torch import ActionDistributionSpec


@hookimpl
def rlcore_action_distributions() -> list[ActionDistributionSpec]:
    return [
        ActionDistributionSpec(
            name="beta",
            target="acme_beta.distribution:Beta",
            summary="a Beta distribution with one mode, for actions within bounds (Chou et al. 2017)",
        )
    ]
