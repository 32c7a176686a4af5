"""The files of the zoo by name: ``ppo/CartPole-v1`` is ``files/ppo/CartPole-v1.yaml`` of this package."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from rlcore import ConfigError, did_you_mean

FILES = Path(__file__).parent / "files"


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
