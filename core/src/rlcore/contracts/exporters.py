"""The contract of exporters, which write a trained policy as one file for other programs and runtimes.

An exporter gets a frozen policy, what its agents observe and do, and the path of a file. rlcore decides when policies
are exported and where: ``rlcore export`` exports from a checkpoint alone, and a run whose configuration has an
``export`` block exports at its end and, with ``checkpoints: true``, at every checkpoint. No environment is needed. An
export is outside the training loop, and a failing one never stops a run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import attrs

from rlcore.contracts.environment import BehaviorSpec
from rlcore.contracts.policy import Policy
from rlcore.errors import UnsupportedExport


@attrs.frozen(kw_only=True)
class ExportAbout:
    """The origin of an exported policy. An exporter stores what its format has a place for.

    Attributes:
        run_id: The id of the run.
        step: Agent steps of the run, over all behaviors; the name of the checkpoint.
        behavior_steps: Agent steps of the exported behavior.
        trainer_type: ``trainer_type`` of the behavior.
        rlcore_version: The version of rlcore.
        configuration_sha256: SHA-256 of the complete configuration that the policy was trained with, as 64 hexadecimal
            digits: the checksum in the first line of the run's ``configuration.yaml``, which is that of all following
            lines. A run that is resumed with an unchanged configuration keeps the checksum; a changed one, also through
            ``--set``, has another.
    """

    run_id: str
    step: int
    behavior_steps: int
    trainer_type: str
    rlcore_version: str
    configuration_sha256: str


@runtime_checkable
class Exporter(Protocol):
    """Writes policies in one format. Created once per run, before the first step, and once by ``rlcore export``."""

    def export(self, policy: Policy, behavior: BehaviorSpec, path: Path, about: ExportAbout) -> str | None:
        """Write ``policy`` as the file ``path``, which does not exist, and as nothing else.

        Return a report in one line, such as the result of a check of the file, or None. ``rlcore export`` prints the
        report, and a run logs it.

        ``policy`` is a copy that no training changes; ``behavior.name`` is its name, and ``behavior`` has the
        observations, actions and bounds. :func:`policy_module` returns the policy as one PyTorch module. ``path`` is
        in an empty directory on the disk of the final place: rlcore moves the file there, under the same name, when
        this method has returned. A file that is there under this name is therefore always complete. rlcore deletes
        the directory if this method raises.

        Raise :class:`rlcore.UnsupportedExport` for a policy that the format cannot represent, with the reason.
        Any other exception counts as a failure of the exporter.
        """
        ...


@runtime_checkable
class ChecksPolicies(Exporter, Protocol):
    """An exporter that may need more for some policies, such as another package."""

    def check(self, policy: Policy, behavior: BehaviorSpec) -> None:
        """Raise :class:`rlcore.ConfigError` if an export of ``policy`` needs what is not installed.

        Called for each behavior before the first step of a run. ``policy`` has the networks that will be exported.
        """
        ...


def policy_module(policy: Policy) -> Any:
    """Return the policy as one PyTorch module on the CPU, from raw observations to actions of the environment.

    For policies of :mod:`rlcore_torch` it is a new :class:`rlcore_torch.PolicyModule`, which may be
    changed. Another policy may have a method ``module()`` too: its module is called like a PolicyModule, returns a
    PolicyOutput, and has the whole numbers ``memory_size`` and ``noise_size``. Raises UnsupportedExport for a policy
    without this method.
    """
    module = getattr(policy, "module", None)
    if not callable(module):
        raise UnsupportedExport(
            f"the policy {type(policy).__name__} has no method module(), so it is not available as a PyTorch module"
        )
    return module().cpu()
