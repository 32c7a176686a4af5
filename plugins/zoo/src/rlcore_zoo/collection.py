"""The files of the zoo by name: ``ppo/CartPole-v1`` is ``files/ppo/CartPole-v1.yaml`` of this package."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from rlcore import ConfigError, did_you_mean, read_document

FILES = Path(__file__).parent / "files"
AGENTS = Path(__file__).parent / "agents"
REGISTERING = ("ale_py", "minigrid")  # modules that a user may write in front of the ids of files
PREFERRED = ("ppo", "sac", "td3", "dqn")  # of several files for an environment, when no trainer is given


def names() -> list[str]:
    """Return the names of all files, sorted."""
    files = [path.relative_to(FILES) for path in FILES.glob("*/*.yaml")]
    return sorted(file.with_suffix("").as_posix() for file in files)


def path_of(name: str) -> Path:
    """Return the path of the file called ``name``, which may end in ``.yaml``.

    Raises ConfigError for an unknown name, with the nearest one. A name without a trainer, such as ``CartPole-v1``, is
    answered with the trainers that have a file for it.
    """
    name = name.removesuffix(".yaml")
    known = names()
    if name in known:
        return FILES / f"{name}.yaml"
    environment = PurePosixPath(name).name
    same = [repr(other) for other in known if PurePosixPath(other).name == environment]
    hint = did_you_mean(name, known)
    if same:
        hint = f"; did you mean {' or '.join(same)}?"
    raise ConfigError(f"the zoo has no {name!r}{hint}; rlcore zoo list shows all {len(known)}")


def file_for(given: Mapping[str, Any]) -> str | None:
    """Return the name of the file for the environment and the trainer that are ``given``; None if there is none.

    The file is called after the id, as runs are, and its environment has this id and the type, if one is given. Without
    a trainer, the first of ``PREFERRED`` that has a file is chosen, and then others by name.
    """
    environment = given["environment"]
    name = PurePosixPath(str(environment["id"]).replace(":", "/")).name
    trainer = given.get("default_settings", {}).get("trainer_type")
    known = names()
    if trainer is None:
        others = sorted({file.partition("/")[0] for file in known} - {*PREFERRED})
        trainers = [*PREFERRED, *others]
    else:
        trainers = [str(trainer).rpartition("/")[2]]
    for folder in trainers:
        file = f"{folder}/{name}"
        if file in known and _is_of(read_document(path_of(file)).data["environment"], environment):
            return file
    return None


def agent_of(name: str) -> Path:
    """Return the directory of the trained agent of a file: the checkpoint ``agents/TRAINER/WORLD/STEP``.

    Raises ConfigError for an unknown name, with the nearest one, and for a file without an agent.
    """
    name = path_of(name).relative_to(FILES).with_suffix("").as_posix()
    steps = [folder for folder in (AGENTS / name).glob("*") if folder.name.isdecimal()]
    if not steps:
        raise ConfigError(
            f"the zoo has no trained agent of {name!r}; rlcore run zoo:{name} trains one, "
            "rlcore zoo list --agent has the others"
        )
    return steps[0]


def _is_of(block: Mapping[str, Any], environment: Mapping[str, Any]) -> bool:
    """Whether the ``environment`` block of a file is for the environment that the user gave."""
    own = str(block.get("id"))
    same_id = environment["id"] in (own, *(f"{module}:{own}" for module in REGISTERING))
    return same_id and environment.get("type") in (None, block.get("type", "gymnasium"))
