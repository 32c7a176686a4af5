"""``rlcore acme``: the runs of a directory and their owners, and uploads by hand."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from acme_rl.http_request import RequestFailed
from acme_rl.settings import destination_problem
from acme_rl.uploads import destination
from rlcore import RlcoreError, RunStateError, read_run


@click.group("acme")
def acme() -> None:
    """List the runs of a directory, upload checkpoints."""


@acme.command()
@click.argument("results", type=click.Path(path_type=Path, file_okay=False, exists=True), default="results")
def runs(results: Path) -> None:
    """List the runs in RESULTS (results) with steps, owners and the users who started them."""
    for directory in sorted(path.parent for path in results.glob("*/configuration.yaml")):
        try:
            status = read_run(directory).status
        except RlcoreError as error:
            click.echo(f"{directory.name}: {error}")
            continue
        section: Mapping[str, Any] = status.get("acme", {})
        step = status.get("metadata", {}).get("run_steps", 0)
        owner = section.get("owner", "-")
        names = dict.fromkeys(start["user"] for start in section.get("starts", []))  # each once, the first one first
        users = ", ".join(names) or "-"
        click.echo(f"{directory.name}: {step} steps, owner {owner}, started by {users}")


@acme.command()
@click.argument("run")
@click.option("--to", metavar="PLACE", help="Directory or http(s) address; by default, acme.upload_to of the run.")
def upload(run: str, to: str | None) -> None:
    """Upload the intact checkpoints of RUN (a run directory, or the id of a run in results/)."""
    data = read_run(run)
    to = to or data.configuration.get("acme", {}).get("upload_to")
    if not to:
        raise click.UsageError("the run has no acme.upload_to; pass --to")
    problem = destination_problem(to)
    if problem:
        raise click.UsageError(f"{to}: {problem}")
    send = destination(Path.cwd(), to, data.directory.name, os.environ.get("ACME_TOKEN", ""))
    for checkpoint in data.checkpoints:
        if checkpoint.problem:
            click.echo(f"{checkpoint.step}: skipped, {checkpoint.problem}", err=True)
            continue
        try:
            send(checkpoint.path)
        except (OSError, RequestFailed) as error:
            raise RunStateError(f"checkpoint {checkpoint.step} was not uploaded: {error}") from error
        click.echo(f"{checkpoint.step}: uploaded")
