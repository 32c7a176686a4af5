"""Writes a new plugin: a complete distribution with tests, from the templates beside this module."""

from __future__ import annotations

import keyword
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from string import Template

import attrs

from rlcore._version import __version__
from rlcore.errors import ConfigError
from rlcore.plugins.discovery import installed
from rlcore.plugins.known import PACKAGES
from rlcore.plugins.plugin import PLUGIN_NAME

_SUFFIX = ".tmpl"
_PREFIX = "rlcore-"
_GYMNASIUM = PACKAGES["environment", "gymnasium"]
_PPO = PACKAGES["trainer", "ppo"]
_CURRICULUM = PACKAGES["curriculum", "lessons"]


@attrs.frozen
class Kind:
    """How to write and use one kind of plugin."""

    title: str
    words: tuple[str, ...]  # endings of its class's name; the first is added unless the plugin's name ends with one
    module: str  # the file of the class
    needs: tuple[str, ...]  # the distributions that example.yaml needs beside rlcore and the plugin
    usage: str
    builds_on: tuple[str, ...] = ()  # other distributions of rlcore that its code imports


KINDS = {
    "trainer": Kind(
        "trainer for rlcore: a linear actor-critic on discrete actions",
        ("Trainer",),
        "trainer",
        (_GYMNASIUM,),
        "```yaml\nbehaviors:\n  Walker:\n    trainer_type: {name}\n```",
    ),
    "reward": Kind(
        "reward for rlcore: a constant for every step",
        ("Reward",),
        "reward",
        (_GYMNASIUM, _PPO),
        "```yaml\nbehaviors:\n  Walker:\n    reward_signals:\n      extrinsic: {{}}\n      {name}: {{}}\n```",
    ),
    "stats": Kind(
        "statistics writer for rlcore: one line of CSV for each statistic",
        ("Writer",),
        "writer",
        (_GYMNASIUM, _PPO),
        "```yaml\nstats:\n  {name}: {{}}\n```",
    ),
    "env": Kind(
        "environment for rlcore: walk along a line to a goal",
        ("Environment", "Env"),
        "environment",
        (_PPO,),
        "```yaml\nenvironment:\n  type: {name}\n```",
    ),
    "curriculum": Kind(
        "curriculum for rlcore: a ladder of values, up after successes and down after a failure",
        ("Curriculum",),
        "curriculum",
        (_GYMNASIUM, _PPO),
        "```yaml\nenvironment_parameters:\n  length:\n    curriculum: "
        "{{type: {name}, rungs: [0.25, 0.5, 1.0], success: 60}}\n```",
    ),
    "sampler": Kind(
        "sampler for rlcore: values of environment parameters, the greater the more likely",
        ("Sampler",),
        "sampler",
        (_GYMNASIUM, _PPO),
        "```yaml\nenvironment_parameters:\n  length:\n    sampler_type: {name}\n"
        "    sampler_parameters: {{low: 0.25, high: 1.0}}\n```",
        (_CURRICULUM,),
    ),
}


def write_plugin(name: str, kind: str, parent: Path) -> Path:
    """Writes ``parent/rlcore-NAME`` and returns it; ConfigError for a name that cannot be used or is taken."""
    name = name.removeprefix(_PREFIX)
    _check_name(name)
    directory = parent / f"{_PREFIX}{name}"
    if directory.exists():
        raise ConfigError(f"{directory} exists; choose another name, or another place with --dir")
    values = _values(name, kind)
    for path, text in _files(kind, values["module"]):
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(Template(text).substitute(values), encoding="utf-8")
    return directory


def _check_name(name: str) -> None:
    if not PLUGIN_NAME.fullmatch(name) or name.endswith("-") or "--" in name or keyword.iskeyword(name):
        raise ConfigError(
            f"{name!r} is not a plugin name: use small letters, digits and single hyphens, with a letter first"
        )
    taken = [plugin for plugin in installed() if plugin.name == name]
    if taken:
        raise ConfigError(f"{name!r} is the name of an installed plugin, {taken[0].label}; choose another")


def _values(name: str, kind: str) -> dict[str, str]:
    major, minor = __version__.split(".")[:2]
    what = KINDS[kind]
    bounds = f">={major}.{minor},<{major}.{int(minor) + 1}"
    return {
        "name": name,
        "distribution": f"{_PREFIX}{name}",
        "module": f"rlcore_{name.replace('-', '_')}",
        "settings_class": _class_name(name, "Settings"),
        "class_name": _class_name(name, *what.words),
        "agent": _class_name(name),
        "title": f"{'An' if what.title[0] in 'aeiou' else 'A'} {what.title}",
        "needs": " ".join(what.needs),
        "usage": what.usage.format(name=name),
        "kind_module": what.module,
        "bounds": bounds,
        "builds_on": "".join(f', "{distribution}{bounds}"' for distribution in what.builds_on),
    }


def _class_name(name: str, *endings: str) -> str:
    """``MyTrainer`` for ``my-trainer``, with the first of ``endings`` appended unless it ends with one of them."""
    words = [part.capitalize() for part in name.split("-")]
    if endings and words[-1] in endings:
        words.pop()
    return "".join([*words, *endings[:1]])


def _files(kind: str, module: str) -> Iterator[tuple[PurePosixPath, str]]:
    """Paths in the new directory and the templates for them."""
    templates = files("rlcore.plugins") / "templates"
    for folder in ("common", kind):
        for path, file in _walk(templates / folder, PurePosixPath()):
            path = path.with_name(path.name.removesuffix(_SUFFIX))
            if path.parts[0] == "src":
                path = PurePosixPath("src", module, *path.parts[1:])
            yield path, file.read_text(encoding="utf-8")


def _walk(folder: Traversable, path: PurePosixPath) -> Iterator[tuple[PurePosixPath, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _walk(entry, path / entry.name)
        elif entry.name.endswith(_SUFFIX):
            yield path / entry.name, entry
