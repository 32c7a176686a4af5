"""``rlcore push`` and ``rlcore pull``."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from rlcore import debug_option, json_option

if TYPE_CHECKING:
    from rlcore import RunData
    from rlcore_zoo.hub.contents import Entry

_SIZE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\s*(MB|GB|TB)", re.IGNORECASE)
_UNITS = {"MB": 10**6, "GB": 10**9, "TB": 10**12}
WITH_REPLAY = "--replay uploads them, and --checkpoint best uploads policies alone"


class Bytes(click.ParamType[int]):
    """A size such as ``500MB`` or ``20GB``, in bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _SIZE.fullmatch(str(value))
        if match is None:
            self.fail(f"{value!r} is not a size; write a number and MB, GB or TB, such as 20GB", param, ctx)
        unit = _UNITS[match[2].upper()]
        return int(float(match[1]) * unit)


# ---------------------------------------------------------------- push


@click.command("push")
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("repository", metavar="OWNER/NAME")
@click.option(
    "--checkpoint",
    "checkpoints",
    multiple=True,
    metavar="last|best|all|STEP",
    help="Upload this checkpoint; may be repeated. By default, the last one and that of the best evaluation.",
)
@click.option(
    "--episodes",
    type=click.IntRange(0, 100_000),
    default=20,
    show_default=True,
    help="Play so many episodes for the score in the card; 0 plays none.",
)
@click.option("--seed", type=click.IntRange(min=0), help="Seed of these episodes; by default, the run's plus one.")
@click.option("--film", "filming", is_flag=True, help="Also film an episode.")
@click.option(
    "--film-from", type=click.Path(path_type=Path, exists=True), metavar="PATH", help="Upload this film instead."
)
@click.option(
    "--add",
    "added",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also upload FILE, to files/.",
)
@click.option("--replay", "with_replay", is_flag=True, help="Also upload the replay buffers of checkpoints.")
@click.option("--license", metavar="NAME", help="The license of the model, such as mit, for the card.")
@click.option("--public", is_flag=True, help="Make a new repository public; by default, it is private.")
@click.option("--message", help="The message of the commit.")
@click.option("--dry-run", is_flag=True, help="Send nothing; show the files and the card.")
@click.option("--yes", is_flag=True, help="Upload without a question.")
@click.option("--force", is_flag=True, help="Replace files of the repository that rlcore push did not write.")
@click.option("--allow-private", is_flag=True, help="Upload values that name places of this machine or look secret.")
@click.option(
    "--allow-local",
    is_flag=True,
    envvar="RLCORE_ALLOW_LOCAL",
    help="Import files that the run names, for the episodes.",
)
@json_option
@debug_option
def push_command(
    run: Path,
    repository: str,
    checkpoints: tuple[str, ...],
    episodes: int,
    seed: int | None,
    filming: bool,
    film_from: Path | None,
    added: tuple[Path, ...],
    with_replay: bool,
    license: str | None,
    public: bool,
    message: str | None,
    dry_run: bool,
    yes: bool,
    force: bool,
    allow_private: bool,
    allow_local: bool,
    as_json: bool,
) -> None:
    """Upload RUN (a run directory, or the id of a run in results/) with a model card to a model hub.

    The hub is huggingface.co, or the one at HF_ENDPOINT. The list of files is shown first. Uploaded are the
    configuration, the results, the curves, checkpoints and the policies that the run exported; logs and replay buffers
    are not.
    """
    if filming and film_from is not None:
        raise click.UsageError("--film plays an episode and --film-from names a film; give only one of them")
    from tempfile import TemporaryDirectory

    from rlcore import ConfigError, echo, find_run, read_run
    from rlcore_torch import without_replay
    from rlcore_zoo.hub.contents import CARD, chosen_checkpoints, require_nothing_private, run_files
    from rlcore_zoo.hub.errors import hub_api, require_repository_name
    from rlcore_zoo.hub.upload import Remote, push, with_list

    require_repository_name(repository)
    directory = find_run(run)
    data = read_run(directory)
    uploaded = chosen_checkpoints(directory, checkpoints)
    if not with_replay:
        place = Path(click.get_current_context().with_resource(TemporaryDirectory(prefix="rlcore-push-")))
        uploaded = [
            attrs.evolve(checkpoint, path=without_replay(checkpoint.path, place, WITH_REPLAY))
            for checkpoint in uploaded
        ]
        for smaller in uploaded:
            if smaller.path.parent == place:
                echo(f"checkpoint {smaller.step}: its replay buffer is left out; --replay uploads it", err=as_json)
    entries = run_files(data, uploaded, added)
    if not allow_private:
        require_nothing_private(data, entries)
    api = hub_api()
    remote = Remote(False) if dry_run else Remote.of(api, repository)  # before the episodes, which take their time
    checkpoint = "last"
    if any(checkpoint.best for checkpoint in uploaded):
        checkpoint = "best"
    elif checkpoints:
        checkpoint = str(uploaded[-1].step)
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        entries = with_pages(
            repository, data, entries, checkpoint, episodes, seed, filming, film_from, license, allow_local
        )
    entries = with_list(entries)
    where = f"{repository} at {api.endpoint}"
    if not force:
        remote.require_ours(where, entries)
    left_over = list(remote.left_over(entries))
    if not as_json:
        show_entries(entries)
        for name in left_over:
            echo(f"deleted there: {name}, of an earlier upload")
    private = remote.private if remote.exists else not public
    visibility = "private" if private else "public"
    kind = f"the {visibility} repository" if remote.exists else f"a new {visibility} repository"
    answer: dict[str, Any] = {
        "repository": repository,
        "hub": api.endpoint,
        "visibility": visibility,
        "files": {entry.name: entry.size for entry in entries},
        "deleted": left_over,
        "address": None,
    }
    if dry_run and as_json:
        click.echo(json.dumps(answer, indent=4))
        return
    if dry_run:
        [card] = [entry.source for entry in entries if entry.name == CARD]
        assert isinstance(card, bytes)
        echo(f"\n{CARD}:\n")
        for line in card.decode().splitlines():
            echo(line)
        echo(f"\nnothing was sent: --dry-run; the files are for {kind} {where}")
        return
    if not yes:
        if not sys.stdin.isatty():
            raise ConfigError(f"--yes is missing: there is no terminal to ask whether to upload to {kind} {where}")
        click.confirm(f"Upload to {kind} {where}?", abort=True)
    address = push(api, repository, entries, remote, not public, message or f"Run {directory.name}")
    if as_json:
        click.echo(json.dumps({**answer, "address": str(address)}, indent=4))
        return
    echo(f"pushed: {address} ({visibility})")
    echo(f"rlcore pull {repository} downloads it")


def show_entries(entries: list[Entry]) -> None:
    """Print the size and the name of each file, and their sum."""
    from rich.filesize import decimal

    from rlcore import echo

    total = 0
    for entry in entries:
        size = entry.size
        total += size
        echo(f"{decimal(size):>10}  {entry.name}")
    echo(f"{decimal(total):>10}  in {len(entries)} files")


def with_pages(
    repository: str,
    data: RunData,
    entries: list[Entry],
    checkpoint: str,
    episodes: int,
    seed: int | None,
    filming: bool,
    film_from: Path | None,
    license: str | None,
    allow_local: bool,
) -> list[Entry]:
    """``entries`` with the card first, and with what it shows: a curve, and a film if one is wanted."""
    from rlcore import SavedRun
    from rlcore_zoo.hub.card import Shared, model_card
    from rlcore_zoo.hub.contents import CARD, CURVE, FILM, Entry
    from rlcore_zoo.hub.curve import curve
    from rlcore_zoo.hub.score import film, filmed, measure

    complete = [*entries]
    score = None
    if episodes or filming:
        saved = SavedRun.open(data.directory, checkpoint, allow_local)
        if episodes:
            score = measure(saved, checkpoint, episodes, seed)
        if filming:
            film_seed = score.seed if score else saved.context.seed + 1
            complete.append(Entry(FILM, film(saved, film_seed)))
    if film_from is not None:
        complete.append(Entry(FILM, filmed(film_from, f"--film-from {film_from}")))
    packages = packages_of(data)
    versions = made_with(data, packages)
    shared = Shared(repository, data, complete, packages, versions, score, license)
    image = curve(data.metrics, shared.world)
    if image is not None:
        complete.append(Entry(CURVE, image))  # of `shared` too, whose card shows it
    card = model_card(shared).content
    return [Entry(CARD, card.encode()), *complete]


def packages_of(data: RunData) -> list[str]:
    """The distributions of the run's environment and trainers, as far as they are installed here."""
    from rlcore import EnvironmentSpec, RlcoreError, TrainerSpec, document_from_mapping, load_plugins_for

    document = document_from_mapping(data.configuration)
    plugins = load_plugins_for(document, allow_local=False, lenient=True)
    environment = data.configuration.get("environment") or {}
    behaviors = data.configuration.get("behaviors") or {}
    references: list[tuple[type[Any], Any]] = [(EnvironmentSpec, environment.get("type"))]
    for block in behaviors.values():
        references.append((TrainerSpec, block.get("trainer_type")))
    distributions: dict[str, None] = {}
    for kind, name in references:
        try:
            record = plugins.record(kind, str(name))
        except RlcoreError:
            continue
        if record.plugin is not None and record.plugin.distribution:
            distributions[record.plugin.distribution] = None
    return list(distributions)


def made_with(data: RunData, packages: list[str]) -> dict[str, str]:
    """The versions in the newest intact checkpoint: of libraries, of ``packages``, and of Python."""
    fingerprint: Mapping[str, Any] = {}
    intact = [checkpoint for checkpoint in data.checkpoints if not checkpoint.problem]
    if intact:
        fingerprint = intact[-1].values()["run"].get("fingerprint") or {}
    versions = {**(fingerprint.get("libraries") or {}), **(fingerprint.get("environment") or {})}
    plugins = {}
    for text in (fingerprint.get("plugins") or {}).values():
        name, _, version = str(text).partition(" ")
        plugins[name] = version
    for name in packages:
        if name in plugins:
            versions[name] = plugins[name]
    python = (fingerprint.get("computing") or {}).get("Python")
    if python is not None:
        versions["Python"] = python
    return versions


# ---------------------------------------------------------------- pull


@click.command("pull")
@click.argument("repository", metavar="OWNER/NAME")
@click.option("--run-id", help="The name of the run here; by default, that of the repository.")
@click.option("--results-dir", type=click.Path(path_type=Path), default="results", show_default=True)
@click.option("--revision", metavar="REVISION", help="A branch, a tag or a commit; by default, the newest commit.")
@click.option(
    "--max-size", type=Bytes(), default="10GB", show_default=True, help="Refuse a run whose files are larger together."
)
@click.option("--dry-run", is_flag=True, help="Download nothing; show the files.")
@click.option(
    "--allow-local", is_flag=True, help="Keep a run whose configuration names code or programs of this machine."
)
@json_option
@debug_option
def pull_command(
    repository: str,
    run_id: str | None,
    results_dir: Path,
    revision: str | None,
    max_size: int,
    dry_run: bool,
    allow_local: bool,
    as_json: bool,
) -> None:
    """Download the run in the repository OWNER/NAME of a model hub to a new run directory.

    The hub is huggingface.co, or the one at HF_ENDPOINT. Nothing that exists is replaced. The run is not trusted: a
    configuration that names code is refused. rlcore evaluate, export, run --resume and --initialize-from take the run.
    """
    import shutil

    from rich.filesize import decimal

    from rlcore import ConfigError, RunStateError, echo, name_problem, user_path
    from rlcore_zoo.hub.download import listing, pull, require_free
    from rlcore_zoo.hub.errors import hub_api, require_repository_name

    require_repository_name(repository)
    name = run_id or repository.rpartition("/")[2]
    if problem := name_problem("a run id", name):
        raise ConfigError(f"--run-id: {problem}")
    directory = user_path(results_dir) / name
    require_free(directory)
    api = hub_api()
    files = listing(api, repository, revision)
    if files.size > max_size:
        raise RunStateError(
            f"{repository}: has {decimal(files.size)}, more than {decimal(max_size)}; --max-size {decimal(files.size)} "
            "would allow it"
        )
    answer: dict[str, Any] = {
        "repository": repository,
        "commit": files.commit,
        "files": dict(files.wanted),
        "left_out": list(files.left_out),
        "directory": None,
        "code": [],
    }
    if dry_run and as_json:
        click.echo(json.dumps(answer, indent=4))
        return
    if dry_run:
        for file, size in files.wanted.items():
            echo(f"{decimal(size):>10}  {file}")
        echo(f"{decimal(files.size):>10}  in {len(files.wanted)} files at commit {files.commit}")
        echo("nothing was downloaded: --dry-run")
        return
    parent = directory.parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(parent).free
    except OSError as error:
        raise RunStateError(f"{parent}: cannot be written to: {error.strerror or error}") from None
    needed = 2 * files.size  # the cache of huggingface_hub has a copy
    if needed > free:
        raise RunStateError(f"{parent}: has {decimal(free)} left, and the run needs {decimal(needed)}")
    code = pull(api, repository, files, directory, allow_local)
    if as_json:
        click.echo(json.dumps({**answer, "directory": str(directory), "code": list(code)}, indent=4))
        return
    echo(f"pulled: {directory} ({decimal(files.size)}, commit {files.commit})")
    if files.left_out:
        echo(f"left there: {', '.join(files.left_out)}")
    if code:
        echo(f"warning: the configuration names more than plugins that you installed: {', '.join(code)}", err=True)
    echo(f"read {directory / 'configuration.yaml'} before you evaluate or resume the run")
