"""Compares pages with the code: commands, options, keys, defaults, files, variables, tags, modules and hooks."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from torch.distributed.run import get_args_parser
from workspace import MEMBERS, ROOT

from rlcore import Plugins, RunOptionSpec, load_plugins
from rlcore.cli.commands import plugin_command
from rlcore.cli.main import rlcore as command_line
from rlcore.plugins.contract import CONTRACT
from rlcore_devkit import json_schema
from rlcore_migrate.hints import foreign_keys

pytestmark = pytest.mark.documentation

PLUGINS, _ = Plugins.inspect()
LISTED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
TRACKED = [path for path in LISTED.stdout.split("\n") if (ROOT / path).is_file()]
PAGES = [path for path in TRACKED if path.endswith(".md") and not path.endswith("CHANGELOG.md")]
if not PAGES:
    pytest.skip("the pages are listed by git", allow_module_level=True)

FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
TEXTS = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
# The code in sentences and tables, with its page.
NAMED = [(page, code) for page in PAGES for code in re.findall(r"`([^`\n]+)`", FENCE.sub("", TEXTS[page]))]

# Options of pip, Python, pytest, torchrun, RL Zoo and an example.
OF_OTHERS = (
    *("-e", "-m"),
    *("--index-url", "--extra-index-url", "-k", "--nproc-per-node", "--local-addr", "--standalone", "--rdzv-conf"),
    *("--rdzv-endpoint", "--hyperparams", "--eval-freq", "--eval-episodes", "-i", "--track", "-optimize"),
    *("--env-kwargs", "--gym-packages", "--acme-owner", "--signal", "--open-mode", "--shutdown-timeout"),
)
INNER_BLOCKS = ("hyperparameters", "network_settings", "reward_signals", "extrinsic", "self_play", "memory")
# Keys of plugins that pages write, attributes of Python objects, and placeholders.
NO_KEYS = (
    *("a.b", "env_settings.KEY", "acme.owner", "behaviors.CartPole.hyperparameters.schedule", "reward_signals.novelty"),
    *("environment.behaviors", "evaluation.score", "sweep.json"),
)
# Names of before are in the first column of their tables.
RULES = ("docs/architecture.md", "docs/rules.md")  # name files as they begin in their package
PORTING = ("docs/how-to/porting.md", "docs/how-to/porting-rules.md")
# Environment variables of JAX.
VARIABLES_OF_OTHERS = ("JAX_COMPILATION_CACHE_DIR", "XLA_PYTHON_CLIENT_PREALLOCATE")
# A misspelled hook, and metadata of an exported file.
NO_HOOKS = ("rlcore_trainer", "rlcore_version")
# Tags of runs in MLflow.
NO_MODULES = ("rlcore.group", "rlcore.seed", "rlcore.trial")


@cache
def code() -> str:
    """The code of the repository, and that of the pages' plugins."""
    kinds = (".py", ".toml", ".tmpl", ".yml", ".yaml")
    return "".join((ROOT / path).read_text(encoding="utf-8") for path in TRACKED if path.endswith(kinds))


# ---------------------------------------------------------------- commands


def find_command(words: list[str]) -> tuple[click.Command, list[str]]:
    command: click.Command = command_line
    path: list[str] = []
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        path.append(words[0])
        found = command.get_command(click.Context(command), words[0]) or plugin_command(PLUGINS, " ".join(path))
        if found is None:
            raise click.UsageError(f"there is no command {words[0]!r}")
        command = found
        words = words[1:]
    return command, words


def options_of(command: click.Command) -> set[str]:
    context = click.Context(command)
    found = {option for each in command.get_params(context) for option in (*each.opts, *each.secondary_opts)}
    inner = command.list_commands(context) if isinstance(command, click.Group) else ()
    return found.union(*(options_of(command.get_command(context, name)) for name in inner))  # type: ignore[attr-defined]


def commands_in(page: str) -> Iterator[str]:
    for language, body in FENCE.findall(TEXTS[page]):
        if language not in ("py", "python", "yaml", "toml", "diff"):
            for line in re.sub(r"\\\n\s*", " ", body).splitlines():
                yield from re.findall(r"(?:^|&& |\$ |python -m )rlcore (.*?)(?= && | > | 2>|\s+#|\||$)", line.strip())


def test_commands_in_blocks_can_be_parsed() -> None:
    wrong = []
    for page in PAGES:
        for text in commands_in(page):
            if "acme" in text:  # of a plugin that the page is about
                continue
            try:
                command, arguments = find_command(shlex.split(text))
                command.make_context(text, arguments).close()
            except click.exceptions.Exit:
                pass  # --help
            except click.ClickException as error:
                wrong.append(f"{page}: rlcore {text}: {error.format_message()}")
    assert wrong == []


def test_options_in_sentences_exist() -> None:
    ours = (plugin_command(PLUGINS, name) for name in ("play", "plugins new", "ratings", "ray", "report", "schema"))
    written = re.findall(r'"(--[a-z-]+)"', code())  # by conftest.py, benchmarks and tools
    foreign = {f"--{flag}" for flag in foreign_keys()["flags"]}
    of_run = {record.option for record in load_plugins().records("option") if isinstance(record, RunOptionSpec)}
    every = options_of(command_line).union(of_run, OF_OTHERS, foreign, written, *map(options_of, filter(None, ours)))
    wrong = []
    for page, text in NAMED:
        words = [word.partition("=")[0].strip(",.;()") for word in text.split()]
        if words[:1] == ["rlcore"] and "acme" not in text:
            typed = [word for word in words[1:] if not re.match(r"[A-Z.\[]", word)]
            known = options_of(find_command(typed)[0]) | (of_run if typed[:1] == ["run"] else set())
            if typed[:1] == ["torchrun"]:  # which takes those of PyTorch's, and then those of a run
                known |= set(get_args_parser()._option_string_actions) | options_of(find_command(["run"])[0])
            for of_ray, inner in (("ranks", "run"), ("actors", "actor")):  # which take those of what they start
                if typed[:2] == ["ray", of_ray]:
                    known |= options_of(find_command([inner])[0])
        elif re.match(r"--?[a-z]", text):
            known = every
            words = words[:1]
        else:
            continue
        options = {word for word in words if re.fullmatch(r"--?[a-z][a-z-]*", word)}
        wrong += [f"{page}: {option} in {text}" for option in options - known - {"--help"}]
    assert wrong == []


# ---------------------------------------------------------------- configuration


@pytest.fixture(scope="module")
def settings() -> dict[tuple[str, ...], list[Any]]:
    """The defaults of every key by path, ``...`` without one; ``*`` stands for a name that a user chooses."""
    schema = json_schema(load_plugins())
    found: dict[tuple[str, ...], list[Any]] = defaultdict(list)

    def walk(part: Any, path: tuple[str, ...]) -> None:
        if path:
            found[path].append(part.get("default", ...))
        if "$ref" in part:
            part = schema["$defs"][part["$ref"].rpartition("/")[2]]
        for each in (*part.get("anyOf", ()), *part.get("oneOf", ()), *part.get("allOf", ())):
            walk(each, path)
        for key in ("then", "else", "items"):
            if isinstance(part.get(key), dict):
                walk(part[key], path)
        for key, inner in part.get("properties", {}).items():
            walk(inner, (*path, key))
        if isinstance(part.get("additionalProperties"), dict):
            walk(part["additionalProperties"], (*path, "*"))

    walk(schema, ())
    return found


def test_keys_exist(settings: dict[tuple[str, ...], list[Any]]) -> None:
    endings = {path[start:] for path in settings for start in range(len(path))}
    tops = {path[0] for path in settings}.union(INNER_BLOCKS)
    free = ("options", "parameters", "environment_parameters", "export")  # a user's or a plugin's keys follow

    def is_key(dotted: str) -> bool:
        parts = dotted.removeprefix("evaluation.").split(".")
        parts = parts[: next((at + 1 for at, part in enumerate(parts) if part in free), None)]
        return any(
            len(ending) == len(parts) and all(key in (part, "*") for key, part in zip(ending, parts, strict=True))
            for ending in endings
        )

    found = [(page, key) for page in PAGES for key in re.findall(r"--set[ =]'?([A-Za-z_]+(?:\.\w+)+)=", TEXTS[page])]
    for page, text in NAMED:
        found += [(page, key) for key in re.findall(r"(?<![\w/.-])([a-z_]+(?:\.[a-zA-Z_]+)+)(?![\w/(.-])", text)]
    unknown = {each for each in found if each[1].split(".")[0] in tops and not is_key(each[1])}
    assert {(page, key) for page, key in unknown if key not in NO_KEYS and not key.endswith(".py")} == set()


def test_defaults_in_tables_are_those_of_the_settings(settings: dict[tuple[str, ...], list[Any]]) -> None:
    wrong = []
    compared = 0
    rows = [
        (page, row)
        for page in PAGES
        for table in re.findall(r"^\| key[^|]*\| default \|.*\n\|[-|]+\n((?:\|.*\n)+)", TEXTS[page], re.MULTILINE)
        for row in table.splitlines()
    ]
    for page, row in rows:
        keys = re.findall(r"`(\w+)`", row.split("|")[1])
        cell = row.split("|")[2]
        shown = re.findall(r"[\w.+-]+", cell)
        if len(shown) != len(keys) or re.search(r"[;*()]", cell):
            continue  # none, or one in words
        for key, text in zip(keys, shown, strict=True):
            number = re.sub(r"^(\d+)e", r"\1.0e", text)  # as YAML reads it
            meant = {"required": [...], "none": [{}, "none"]}.get(text, [yaml.safe_load(number)])
            known = [each for path, defaults in settings.items() if path[-1] == key for each in defaults]
            compared += 1
            if not any(default in known for default in meant):
                wrong.append(f"{page}: {key} is {text}, not one of {known}")
    assert wrong == [] and compared > 40


# ---------------------------------------------------------------- packages


def of_the_first_command() -> tuple[set[str], set[str]]:
    """The names of the plugins that ``pip install .`` brings, and of those among them whose libraries it leaves out."""
    workspace = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = {re.split(r"[\[ ]", each)[0] for each in workspace["dependencies"]}
    members = [member for member in MEMBERS if member.name in names]
    every = {plugin for member in members for plugin in (*member.plugins, member.plugin)}
    return every, {plugin for member in members for plugin in member.extras_of_plugins}


def test_the_plugins_of_a_first_training_are_those_of_the_first_command() -> None:
    """The output of `rlcore plugins list` and the first lines of a run agree with it."""
    tutorial = TEXTS["docs/tutorial/first-training.md"]
    table = tutorial.split("```text\nNAME ")[1].split("```")[0]
    every, incomplete = of_the_first_command()
    states = {line.split()[0]: line.split()[3] for line in table.splitlines()[1:]}
    assert states == {name: "needs" if name in incomplete else "on" for name in every}
    (listed,) = re.findall(r"^plugins +(.*) \(", tutorial, re.MULTILINE)
    assert set(listed.split(", ")) == every - incomplete


def test_pages_for_authors_declare_the_contract_of_this_version() -> None:
    named = {(page, found) for page in PAGES for found in re.findall(r"rlcore-plugin-contract-(\d+)", TEXTS[page])}
    assert named and {number for _, number in named} == {str(CONTRACT)}


# ---------------------------------------------------------------- files and names


def test_files_exist() -> None:
    """Paths that begin with a folder of this repository, and in the tables of rules those that begin in a package."""
    folders = {path.split("/")[0] for path in TRACKED if "/" in path}
    known = set(TRACKED).union(*(map(str, Path(path).parents) for path in TRACKED))
    packages = [f"{place}/" for place in known if re.search(r"src(/rlcore)?$", place)]
    found = [(page, text) for page, text in NAMED if re.fullmatch(r"[\w.-]+(?:/[\w.-]+)+/?", text)]
    run = r"(?:python|pytest|rlcore run|-c|-r) ((?:[\w.-]+/)+[\w.-]+)"
    found += [(page, path) for page in PAGES for path in re.findall(run, TEXTS[page])]
    wrong = [
        f"{page}: {text}"
        for page, text in found
        if (text.split("/")[0] in folders or (page in RULES and text.endswith(".py")))
        and "NAME" not in text
        and not any(f"{start}{text}".rstrip("/") in known for start in ("", *packages))
    ]
    assert wrong == []


def test_variables_and_tags_are_in_the_code() -> None:
    # Without the name of a reward.
    tag = r"^(?:Losses|Policy|Performance|Self-play)/(?:(?:Extrinsic|Curiosity|Rnd|Gail) )?([A-Z][\w ]+)$"
    patterns = (r"\b[A-Z][A-Z0-9]+_[A-Z0-9_]+\b", tag)
    found = [(page, name) for page, text in NAMED for each in patterns for name in re.findall(each, text)]
    wrong = [
        f"{page}: {name}"
        for page, name in found
        if page not in PORTING and name not in VARIABLES_OF_OTHERS and name not in code()
    ]
    assert wrong == []


def test_modules_and_hooks_exist() -> None:
    modules = r"(?<![\w/.-])(rlcore(?:_[a-z]+)?(?:\.\w+)+)"
    found = [(page, name) for page, text in NAMED for name in re.findall(modules, text) if not name.endswith(".json")]
    tables = "".join(TEXTS[page] for page in PORTING)
    before = "\n".join(re.findall(r"^\| (.*?) \| .* \|$", tables, re.MULTILINE))
    gone = {name for name in re.findall(modules, before) if not resolves(name)}
    wrong = [
        f"{page}: {name}"
        for page, name in found
        if not ("acme" in name or name in NO_MODULES or (page in PORTING and name in gone) or resolves(name))
    ]
    hooks = r"(?<![\w/.])rlcore_[a-z_]+[a-z](?![\w./])"
    found = [(page, name) for page, text in NAMED for name in re.findall(hooks, text) if name not in NO_HOOKS]
    found = [(page, name) for page, name in found if not (page in PORTING and f"`{name}`" in before)]
    wrong += [f"{page}: {name}" for page, name in found if not re.search(rf"\b{name}\b", code())]
    assert wrong == []


def resolves(dotted: str) -> bool:
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for name in parts[end:]:
            if not hasattr(found, name):
                return name in getattr(found, "__annotations__", {})
            found = getattr(found, name)
        return True
    return False
