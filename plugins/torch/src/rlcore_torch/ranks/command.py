"""``rlcore torchrun``: ranks on this host, and with the same command on others."""

from __future__ import annotations

import click


@click.command("torchrun", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument(
    "words",
    nargs=-1,
    required=True,
    type=click.UNPROCESSED,
    metavar="[OPTIONS OF TORCHRUN]... CONFIG [OPTIONS OF RUN]...",
)
def torchrun_command(words: tuple[str, ...]) -> int:
    """Train in several processes that learn one policy: PyTorch's torchrun with rlcore run CONFIG in each rank.

    All options of torchrun may stand before CONFIG, such as --nproc-per-node 4. Unlike torchrun, the command ends with
    the exit code of the ranks and with one line, and passes USR1, USR2 and XCPU on too.
    """
    from rlcore_torch.ranks.launcher import launch
    from rlcore_torch.ranks.watchdog import end_process

    code = launch(words)
    if click.get_current_context().find_root().obj:  # the process is of this command alone
        end_process(code)  # PyTorch's store would wait ten seconds for a host that is lost
    return code
