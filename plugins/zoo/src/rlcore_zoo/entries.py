"""The entries of the zoo: a configuration, what it needs, and what was measured with it.

``files/index.yaml`` maps each name to a :class:`World`; each line of ``files/measured.jsonl`` is a
:class:`Measurement`. A measurement belongs to an entry while the file is still the one that was measured, which its
:func:`fingerprint` says: after a change of the file, or of the preset that it names, the entry counts as not measured.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, get_args

import attrs

from rlcore import ConfigError, NotInstalled, Plugins, Preset, load_plugins, read_document
from rlcore_zoo.collection import FILES, agent_of, names, path_of
from rlcore_zoo.intervals import prediction_interval

INDEX = FILES / "index.yaml"
MEASURED = FILES / "measured.jsonl"
Kind = Literal["classic", "box2d", "mujoco", "robotics", "minigrid", "atari", "pettingzoo"]
KINDS: tuple[str, ...] = get_args(Kind)
_IS = attrs.validators.instance_of
_TEXT = _IS(str)
_WHOLE = _IS(int)
_NUMBER = _IS((int, float))
_TEXTS = attrs.validators.deep_mapping(_TEXT, _TEXT, _IS(dict))
_NAMES: Any = attrs.validators.deep_iterable(_TEXT, attrs.validators.min_len(1))
_NUMBER_OR_NONE = attrs.validators.optional(_NUMBER)
_DATE = attrs.validators.matches_re(r"\d{4}-\d\d-\d\d")


@attrs.frozen(kw_only=True)
class Published:
    """A published score for the same task and algorithm.

    Attributes:
        score: The mean return.
        steps: Agent steps of the training.
        source: Where it was published.
        differs: What is not the same there; empty if nothing is known.
    """

    score: float = attrs.field(validator=_NUMBER)
    steps: int = attrs.field(validator=_WHOLE)
    source: str = attrs.field(validator=_TEXT)
    differs: str = attrs.field(default="", validator=_TEXT)


@attrs.frozen(kw_only=True)
class Recorded:
    """The episodes that a file learns from, which a trained agent of the zoo plays.

    Attributes:
        agent: The file of the agent.
        episodes: How many it plays.
        deterministic: Whether it takes the most likely actions, and not drawn ones.
    """

    agent: str = attrs.field(validator=_TEXT)
    episodes: int = attrs.field(validator=_WHOLE)
    deterministic: bool = attrs.field(default=True, validator=_IS(bool))


def _published(block: Any) -> Any:
    return Published(**block) if isinstance(block, Mapping) else block


def _recorded(block: Any) -> Any:
    return Recorded(**block) if isinstance(block, Mapping) else block


@attrs.frozen(kw_only=True)
class World:
    """A file's entry in the index.

    Attributes:
        kind: The family of the environment.
        needs: The distributions to install, with their extras.
        random: The mean return of 100 episodes of uniformly random actions; None where it was not measured.
        published: A published score for the same task and algorithm; None where none is known.
        recorded: The episodes that the file learns from; None for one that learns in the environment.
    """

    kind: str = attrs.field(validator=attrs.validators.in_(KINDS))
    needs: tuple[str, ...] = attrs.field(converter=tuple, validator=_NAMES)
    random: float | None = attrs.field(default=None, validator=_NUMBER_OR_NONE)
    published: Published | None = attrs.field(
        default=None, converter=_published, validator=attrs.validators.optional(_IS(Published))
    )
    recorded: Recorded | None = attrs.field(
        default=None, converter=_recorded, validator=attrs.validators.optional(_IS(Recorded))
    )


@attrs.frozen(kw_only=True)
class Measurement:
    """One training that was measured: a line of ``measured.jsonl``.

    Attributes:
        name: The file.
        fingerprint: That of the file, see :func:`fingerprint`.
        seed: The seed of the training.
        score: The score of the last policy: see :func:`rlcore_zoo.trainings.score_of`.
        episodes: The number of episodes that were played for the score.
        steps: Agent steps of the training.
        cpu_seconds: CPU time of the training, its start included; None where only the wall clock was read.
        wall_seconds: Time of the training by the wall clock, on a machine that also did other work.
        date: The day, as ``2026-11-26``.
        machine: Processor and number of cores.
        python: The version of Python.
        versions: The versions of the distributions that took part.
        command: What trained and measured.
    """

    name: str = attrs.field(validator=_TEXT)
    fingerprint: str = attrs.field(validator=_TEXT)
    seed: int = attrs.field(validator=_WHOLE)
    score: float = attrs.field(validator=_NUMBER)
    episodes: int = attrs.field(validator=_WHOLE)
    steps: int = attrs.field(validator=_WHOLE)
    cpu_seconds: float | None = attrs.field(validator=_NUMBER_OR_NONE)
    wall_seconds: float = attrs.field(validator=_NUMBER)
    date: str = attrs.field(validator=_DATE)
    machine: str = attrs.field(validator=_TEXT)
    python: str = attrs.field(validator=_TEXT)
    versions: Mapping[str, str] = attrs.field(validator=_TEXTS)
    command: str = attrs.field(validator=_TEXT)


@attrs.frozen(kw_only=True)
class Agent:
    """The trained agent of a file, which the package has.

    Attributes:
        path: Its checkpoint.
        seed: The seed of the training.
        score: The score that was measured.
        fingerprint: That of the file which it was trained with.
    """

    path: Path
    seed: int
    score: float
    fingerprint: str | None


@attrs.frozen(kw_only=True, slots=False)
class Entry:
    """A configuration of the zoo.

    Attributes:
        name: Its name, such as ``ppo/CartPole-v1``.
        world: What the index says of it.
        measurements: The trainings that were measured with this very file, by seed; empty if none was.
        fingerprint: See :func:`fingerprint`; None if a package is missing that it needs.
    """

    name: str
    world: World
    measurements: Mapping[int, Measurement]
    fingerprint: str | None = None

    @property
    def trainer(self) -> str:
        """The folder of the file: the trainer, or ``ghost`` for self-play."""
        return self.name.partition("/")[0]

    @property
    def path(self) -> Path:
        return path_of(self.name)

    @cached_property
    def data(self) -> Mapping[str, Any]:
        """The content of the file."""
        return read_document(self.path).data

    @property
    def steps(self) -> int:
        """Agent steps that the file trains for."""
        defaults = self.data.get("default_settings")
        behaviors = self.data.get("behaviors") or {}
        blocks = [defaults, *behaviors.values()]
        return int(max(block["max_steps"] for block in blocks if block and "max_steps" in block))

    @property
    def episodes(self) -> int:
        """Episodes of one score."""
        return int(self.data["evaluation"]["episodes"])

    @property
    def deterministic(self) -> bool:
        """Whether a score is that of the most likely actions, and not of drawn ones."""
        return bool(self.data["evaluation"].get("deterministic", True))

    @property
    def recording(self) -> Path | None:
        """Where the file expects the episodes that it learns from, below the working directory; None without any."""
        if self.world.recorded is None:
            return None
        [(name, behavior)] = self.data["behaviors"].items()
        return Path(behavior["hyperparameters"]["demo_path"], name)

    @property
    def recording_words(self) -> list[str]:
        """The arguments of ``rlcore`` that record these episodes; none for a file that learns in the environment."""
        recorded = self.world.recorded
        if recorded is None or self.recording is None:
            return []
        folder = f"{self.recording.parent}"
        words = ["evaluate", f"zoo:{recorded.agent}", "--episodes", f"{recorded.episodes}", "--record", folder]
        return words if recorded.deterministic else [*words, "--stochastic"]

    @property
    def summary(self) -> str:
        """The first sentence of the file."""
        first, _, _ = self.path.read_text(encoding="utf-8").partition("\n")
        return first.removeprefix("#").strip()

    @property
    def measured(self) -> bool:
        """Whether enough seeds were measured to expect something of the next one."""
        return len(self.measurements) >= 2

    @property
    def score(self) -> float:
        """The mean score of the measured seeds. Raises ValueError without any."""
        return fmean(self._scores)

    @property
    def interval(self) -> tuple[float, float]:
        """Where the score of a new seed is expected; raises ValueError for an entry that is not measured."""
        return prediction_interval(self._scores)

    @property
    def _scores(self) -> list[float]:
        return [measurement.score for measurement in self.measurements.values()]

    @property
    def proves_little(self) -> bool:
        """Whether the interval has the score of random actions, so that a trainer which learns nothing may be inside.

        Raises ValueError for an entry that is not measured.
        """
        low, high = self.interval
        random = self.world.random
        return random is not None and low <= random <= high

    @property
    def ratio(self) -> float | None:
        """The score above that of random actions, divided by the published one above it; None without one of them."""
        published = self.world.published
        random = self.world.random
        if not self.measured or published is None or random is None:
            return None
        return (self.score - random) / (published.score - random)

    @cached_property
    def agent(self) -> Agent | None:
        """The trained agent of the package; None without one."""
        try:
            return read_agent(self.name)
        except ConfigError:
            return None

    @property
    def cpu_seconds(self) -> float | None:
        """Mean CPU time of the trainings whose CPU time was measured; None without any."""
        seconds = [measurement.cpu_seconds for measurement in self.measurements.values()]
        known = [value for value in seconds if value is not None]
        return fmean(known) if known else None

    def to_json(self) -> dict[str, Any]:
        """Return plain values; ``measured`` is false without measurements."""
        about: dict[str, Any] = {"name": self.name, "summary": self.summary, "steps": self.steps}
        about |= attrs.asdict(self.world)
        about["ratio"] = self.ratio
        about["agent"] = None
        if self.agent is not None:
            about["agent"] = {"seed": self.agent.seed, "score": self.agent.score}
        about["measured"] = False
        if self.measured:
            measurements = self.measurements.values()
            about["measured"] = {
                "score": self.score,
                "interval": list(self.interval),
                "seeds": {str(measurement.seed): measurement.score for measurement in measurements},
                "episodes": self.episodes,
                "cpu_seconds": self.cpu_seconds,
                "dates": sorted({measurement.date for measurement in measurements}),
                "machines": sorted({measurement.machine for measurement in measurements}),
            }
        return about


def read_agent(name: str) -> Agent:
    """Return the trained agent of a file. Raises ConfigError for a file without one."""
    path = agent_of(name)
    about = json.loads((path / "state.json").read_text(encoding="utf-8"))["run"]
    return Agent(path=path, seed=about["seed"], score=about["score"], fingerprint=about["fingerprint"])


# Keys of which no score depends: how often a run reports and saves.
WITHOUT_EFFECT = frozenset(
    {"preset", "checkpoint_settings", "summary_freq", "checkpoint_interval", "keep_checkpoints", "save_replay_buffer"}
)


def fingerprint(path: Path, plugins: Plugins) -> str | None:
    """Return 16 letters that stand for the values of a configuration, whatever its comments and its layout.

    The values of the preset that it names count too. Keys of reports and checkpoints do not. None if no plugin has the
    preset.
    """
    data: Any = read_document(path).data
    name = data.get("preset")
    if name not in (None, "none"):
        try:
            preset = plugins.record(Preset, str(name)).resolve()
        except NotInstalled:
            return None
        data = _over(data, preset)
    return _digest(_with_effect(data))


def with_recording(of_file: str, recorded: Recorded) -> str:
    """The fingerprint of a file that learns from recorded episodes: those of another agent make it another one."""
    agent = read_agent(recorded.agent)
    return _digest([of_file, attrs.asdict(recorded), agent.fingerprint, agent.seed])


def _digest(value: Any) -> str:
    content = json.dumps(value, sort_keys=True)
    return hashlib.sha256(content.encode("utf-8")).hexdigest()[:16]


def _over(block: Any, base: Any) -> Any:
    """A block over another one, as deep as both are mappings."""
    if not isinstance(block, Mapping) or not isinstance(base, Mapping):
        return block
    merged = dict(base)
    for key, value in block.items():
        merged[key] = _over(value, base[key]) if key in base else value
    return merged


def _with_effect(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {key: _with_effect(below) for key, below in value.items() if key not in WITHOUT_EFFECT}


def read_measurements(path: Path = MEASURED) -> list[Measurement]:
    """Return the lines of a file of measurements. Raises ConfigError, with file and line, for one that is not valid."""
    measurements = []
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        try:
            measurements.append(Measurement(**json.loads(line)))
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{path}:{number}: not a measurement: {error.args[0]}") from error
    return measurements


def read_index(path: Path = INDEX) -> dict[str, World]:
    """Return the index. Raises ConfigError, with the name, for an entry that is not valid."""
    worlds = {}
    for name, block in read_document(path).data.items():
        try:
            worlds[name] = World(**block)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{path}: {name}: {error.args[0]}") from error
    return worlds


def entries() -> list[Entry]:
    """Return all entries, sorted by name. Raises ConfigError if files and index do not have the same names."""
    worlds = read_index()
    files = names()
    in_one = sorted(set(worlds) ^ set(files))
    if in_one:
        raise ConfigError(f"{INDEX}: {', '.join(in_one)}: in the index or among the files, but not in both")
    measurements = read_measurements()
    plugins = load_plugins()
    return [_entry(name, worlds[name], measurements, plugins) for name in files]


def entry_of(name: str) -> Entry:
    """Return the entry called ``name``. Raises ConfigError for an unknown name, with the nearest one."""
    name = path_of(name).relative_to(FILES).with_suffix("").as_posix()
    return _entry(name, read_index()[name], read_measurements(), load_plugins())


def _entry(name: str, world: World, measurements: list[Measurement], plugins: Plugins) -> Entry:
    of_name = [measurement for measurement in measurements if measurement.name == name]
    current = fingerprint(path_of(name), plugins)
    if current is not None and world.recorded is not None:
        current = with_recording(current, world.recorded)
    # Without the package of the preset it cannot be compared: the newest measurements are taken for those of the file.
    counting = current or (of_name[-1].fingerprint if of_name else None)
    by_seed = {measurement.seed: measurement for measurement in of_name if measurement.fingerprint == counting}
    return Entry(name=name, world=world, measurements=dict(sorted(by_seed.items())), fingerprint=current)
