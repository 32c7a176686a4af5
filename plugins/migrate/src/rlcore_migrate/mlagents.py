"""``rlcore convert mlagents``: trainer files of ML-Agents up to 1.0 as one configuration of rlcore.

Such a file has a section ``default`` and one for each behavior, with all keys side by side; curricula and samplers are
files of their own. ML-Agents 1.1 to 1.3 had ``behaviors``, and the other two as the blocks ``curriculum`` and
``parameter_randomization``. What a key means is said by ML-Agents' pages Training-PPO, Training-SAC,
Training-Curriculum-Learning and Training-Environment-Parameter-Randomization of these versions, by Migrating.md, and by
the changelog of com.unity.ml-agents.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from rlcore import NAME_PATTERN, ConfigError, KeyPath, Problems, did_you_mean, dotted, read_document
from rlcore_migrate.commented import CommentedFile

_OF_ALL = ("batch_size", "buffer_size", "learning_rate", "learning_rate_schedule")
_OF_PPO = ("beta", "epsilon", "lambd", "num_epoch")
_OF_SAC = (
    "buffer_init_steps",
    "tau",
    "init_entcoef",
    "steps_per_update",
    "reward_signal_steps_per_update",
    "save_replay_buffer",
)
_HYPERPARAMETERS = {"ppo": (*_OF_ALL, *_OF_PPO), "sac": (*_OF_ALL, *_OF_SAC)}
_NETWORK = ("normalize", "hidden_units", "num_layers", "vis_encode_type")
_MEMORY = ("memory_size", "sequence_length")
_BEHAVIOR = ("max_steps", "time_horizon", "summary_freq", "keep_checkpoints", "checkpoint_interval")
_IMITATION = ("offline_bc", "online_bc", "imitation")
_OF_CURIOSITY = ("use_curiosity", "curiosity_strength", "curiosity_enc_size")  # up to 0.7
# Keys of reward_signals up to 0.15, and in 1.0.
_REWARD_UPDATES = ("reward_signal_num_update", "reward_signal_steps_per_update")
_RENAMED = {"play_against_current_self_ratio": "play_against_latest_model_ratio"}
_CURRICULUM = ("measure", "thresholds", "min_lesson_length", "signal_smoothing", "parameters")  # all required
_MEASURES = ("reward", "progress")
_SAMPLERS = {
    "uniform": ("uniform", {"min_value", "max_value"}),
    "gaussian": ("gaussian", {"mean", "st_dev"}),
    "multirange_uniform": ("multirangeuniform", {"intervals"}),
}
_INTERVALS = ("resampling-interval", "episode-length")  # the latter in the first version that had samplers
_WITHOUT_EFFECT = {
    **dict.fromkeys(("summary_path", "model_path"), "a run writes into its own directory"),
    **dict.fromkeys(_MEMORY, "has no effect without use_recurrent"),
    **dict.fromkeys(_OF_CURIOSITY, "has no effect without use_curiosity, or beside reward_signals"),
    "gamma": "each reward of reward_signals has its own",
    "init_path": "rlcore cannot load networks of ML-Agents",
    "framework": "every trainer has its own framework",
    **dict.fromkeys(_OF_PPO, "a key of ppo"),
    **dict.fromkeys((*_OF_SAC, "train_interval", "num_update"), "a key of sac"),
}
_LEAST_COUNT = 1000  # a whole number such as 5.0e5 is written as 500000
_VERSIONS = (
    "max_steps and summary_freq: up to 0.13, ML-Agents counted steps of the scene. Multiply them by the number of "
    "agents in it if the file is so old.",
    "memory_size: where ML-Agents asked for a multiple of 4, policy and values shared it. Halve it if the file is so "
    "old.",
)


@attrs.frozen
class ConvertedFiles:
    """A configuration.

    Attributes:
        text: The file, with comments.
        behaviors: Names of its behaviors; empty if it has ``default_settings`` alone.
        left_out: Why a key was not converted, by its section and name, such as ``default.summary_path``.
    """

    text: str
    behaviors: tuple[str, ...]
    left_out: Mapping[str, str]


def convert_files(
    path: Path, behaviors: Sequence[str] = (), curriculum: Path | None = None, sampler: Path | None = None
) -> ConvertedFiles:
    """Convert a trainer file with its curricula and samplers.

    ``behaviors`` are the sections to convert; by default all. ``curriculum`` is a file with the curricula of all
    behaviors, that of the behavior it is called after, or a directory of such files. ``sampler`` is a file with
    samplers. Raises ConfigErrors with all that cannot be converted, each with its line.
    """
    trainers = _Source.of(path)
    curricula = list(_curricula(curriculum))
    samplers = [] if sampler is None else [_Source.of(sampler)]
    of_today = not trainers.data.keys().isdisjoint({"behaviors", "default_settings"})  # since 1.1
    c = _Conversion(of_today)
    c.put(("preset",), "none", "ML-Agents' defaults")
    if of_today:
        curricula += _by_behavior(trainers.below("curriculum"))
        samplers.append(trainers.below("parameter_randomization"))
        for key in trainers.data:
            if key not in ("behaviors", "curriculum", "parameter_randomization"):
                c.put((key,), trainers.data[key])
        sections = trainers.below("behaviors")
    else:
        sections = trainers
        c.notes.extend(_VERSIONS)
    c.convert_sections(sections, behaviors)
    trainers.problems.raise_any()
    for behavior, source in curricula:
        c.convert_curriculum(behavior, source)
        source.problems.raise_any()
    for source in samplers:
        c.convert_samplers(source)
        source.problems.raise_any()
    files = [file.name for file in (path, curriculum, sampler) if file is not None]
    # What one behavior takes from `default` is converted, also if another one has no use for it.
    left_out = {key: reason for key, reason in c.left_out.items() if key not in c.used}
    origin = f"Converted by 'rlcore convert mlagents' from {', '.join(files)}."
    not_converted = [f"{key}: {reason}" for key, reason in left_out.items()]
    text = c.file.text(origin, {"What to look at:": c.notes, "Not converted:": not_converted})
    return ConvertedFiles(text, tuple(c.behaviors), left_out)


@attrs.frozen
class _Source:
    """A block of a file."""

    problems: Problems
    path: KeyPath
    data: Mapping[str, Any]

    @classmethod
    def of(cls, path: Path) -> _Source:
        document = read_document(path)
        return cls(Problems(document), (), document.data)

    def refuse(self, key: str, problem: str) -> None:
        self.problems.add((*self.path, key), problem)

    def below(self, key: str) -> _Source:
        """The block called ``key``; an empty one if it is absent or refused."""
        block = self.data.get(key, {})
        if not isinstance(block, Mapping):
            self.refuse(key, f"must be a mapping, not {block!r}")
            block = {}
        return _Source(self.problems, (*self.path, key), block)


def _curricula(path: Path | None) -> Iterator[tuple[str, _Source]]:
    """The curricula of a file or directory, by behavior. Up to 0.13, each was a file called after its behavior."""
    if path is None:
        return
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise ConfigError(f"--curriculum {path}: the directory has no file BEHAVIOR.json")
    for file in files:
        source = _Source.of(file)
        if source.data.keys() & set(_CURRICULUM):
            yield file.stem, source
        else:
            yield from _by_behavior(source)


def _by_behavior(source: _Source) -> Iterator[tuple[str, _Source]]:
    return ((behavior, source.below(behavior)) for behavior in source.data)


@attrs.define
class _Conversion:
    """A configuration that grows.

    Attributes:
        of_today: Whether behaviors may have the form of today.
        file: The configuration.
        behaviors: Names of its behaviors.
        without: Names of sections that were not chosen.
        notes: What a reader should know, a sentence each.
        left_out: Why a key was not converted, by its section and name.
        used: Keys of the section ``default`` that a behavior used.
    """

    of_today: bool
    file: CommentedFile = attrs.field(factory=CommentedFile)
    behaviors: list[str] = attrs.field(factory=list)
    without: list[str] = attrs.field(factory=list)
    notes: list[str] = attrs.field(factory=list)
    left_out: dict[str, str] = attrs.field(factory=dict)
    used: set[str] = attrs.field(factory=set)

    def put(self, path: KeyPath, value: Any, comment: str = "") -> None:
        """Add a value, or a block with all its values."""
        if isinstance(value, Mapping) and value:
            for key, each in value.items():
                self.put((*path, key), each)
            return
        if isinstance(value, float) and value >= _LEAST_COUNT and value.is_integer():
            value = int(value)
        self.file.put(map(str, path), value, comment)

    def convert_sections(self, sections: _Source, chosen: Sequence[str]) -> None:
        """Convert the sections called ``chosen``; all, if there is none."""
        default = sections.below("default")
        names = [name for name in sections.data if name != "default"]
        self.without = [name for name in names if chosen and name not in chosen]
        if default.data and not names and not chosen:
            _Section(self, ("default_settings",), default, default).convert()
        for name in chosen or names:
            if name not in names and not default.data:
                raise ConfigError(f"--behavior {name}: the file has no such section{did_you_mean(name, names)}")
            if re.fullmatch(NAME_PATTERN, name) is None:
                allowed = "letters, digits, '.', '_' and '-'; rename the behavior in the scene too"
                sections.refuse(name, f"not a name of a behavior here, which has {allowed}")
            if name not in names:
                self.notes.append(
                    f"{name}: the file has no such section; this is its section default, as in ML-Agents."
                )
            self.behaviors.append(name)
            _Section(self, ("behaviors", name), sections.below(name), default).convert()

    def convert_curriculum(self, behavior: str, source: _Source) -> None:
        """Convert the curriculum of one behavior: each of its parameters has the same lessons."""
        if behavior in self.without:
            self.left_out[f"curriculum of {behavior}"] = "another behavior"
            return
        if self.behaviors and behavior not in self.behaviors:
            hint = did_you_mean(behavior, self.behaviors)
            source.problems.add(source.path, f"a curriculum of {behavior}, which is not a behavior of the file{hint}")
            return
        data = source.data
        for key in _CURRICULUM:
            if key not in data:
                source.problems.add(source.path, f"{key} is missing")
        for key in data.keys() - set(_CURRICULUM):
            source.refuse(key, f"not a key of a curriculum{did_you_mean(key, _CURRICULUM)}")
        measure = data.get("measure")
        if measure not in _MEASURES:
            source.refuse("measure", f"must be one of {', '.join(_MEASURES)}, not {measure!r}")
        thresholds = data.get("thresholds")
        if not isinstance(thresholds, list):
            source.refuse("thresholds", f"must be a list of numbers, not {thresholds!r}")
            return
        criteria = {"behavior": behavior, "measure": measure}
        rest = {key: data.get(key) for key in ("min_lesson_length", "signal_smoothing")}
        ends = [{"completion_criteria": {**criteria, "threshold": end, **rest}} for end in thresholds]
        ends.append({})  # the last lesson has none
        parameters = source.below("parameters")
        for parameter, values in parameters.data.items():
            if not isinstance(values, list) or len(values) != len(ends):
                reason = f"must be a list of {len(ends)} values, one more than thresholds"
                parameters.refuse(parameter, reason)
            elif self._is_new(parameter, parameters):
                lessons = [
                    {"name": f"Lesson{number}", "value": value, **end}
                    for number, (value, end) in enumerate(zip(values, ends, strict=True))
                ]
                self.put(("environment_parameters", parameter, "curriculum"), lessons)

    def convert_samplers(self, source: _Source) -> None:
        """Convert the samplers of environment parameters."""
        for parameter in source.data:
            if parameter in _INTERVALS:
                self.left_out[parameter] = "each episode draws a new value"
                continue
            sampler = source.below(parameter)
            converted = dict(sampler.data)
            if "sampler_type" not in converted:  # which 1.2 and 1.3 have, as today
                kind = converted.pop("sampler-type", None)
                if not isinstance(kind, str) or kind not in _SAMPLERS:
                    hint = did_you_mean(str(kind), _SAMPLERS)
                    sampler.refuse("sampler-type", f"must be one of {', '.join(_SAMPLERS)}, not {kind!r}{hint}")
                    continue
                name, keys = _SAMPLERS[kind]
                for key in converted.keys() - keys:
                    sampler.refuse(key, f"not a key of {kind}{did_you_mean(key, keys)}")
                converted = {"sampler_type": name, "sampler_parameters": converted}
            if self._is_new(parameter, source):
                self.put(("environment_parameters", parameter), converted)

    def _is_new(self, parameter: str, source: _Source) -> bool:
        """Whether no curriculum or sampler set the parameter before; if not, it is refused."""
        known = parameter in self.file.data().get("environment_parameters", {})
        if known:
            source.refuse(parameter, "set twice, by two curricula or by a curriculum and a sampler; keep one")
        return not known


class _Section:
    """The keys of one behavior: its section over ``default``, key by key, so that blocks are replaced whole."""

    def __init__(self, c: _Conversion, target: KeyPath, own: _Source, default: _Source) -> None:
        self._c = c
        self._target = target
        self._own = own
        self._default = default
        self._left = {**default.data, **own.data}

    def convert(self) -> None:
        """Write the behavior. What is left over is not converted."""
        if self._c.of_today and "trainer" not in self._left:
            self._c.put(self._target, self._left)
            return
        trainer = self._take("trainer")
        if trainer in _IMITATION:
            advice = "its successor is the block behavioral_cloning of ppo or sac, with demo_path"
            self._refuse("trainer", f"ML-Agents removed the trainer {trainer} in 0.13; {advice}")
            return
        if trainer not in ("ppo", "sac"):
            self._refuse("trainer", f"must be ppo or sac, not {trainer!r}")
            return
        self._put("trainer_type", trainer)
        if trainer == "sac":
            self._updates()
        self._move(_HYPERPARAMETERS[trainer], "hyperparameters")
        if trainer == "ppo" and self._own_or_default("learning_rate_schedule") == "constant":
            for key in ("beta_schedule", "epsilon_schedule"):
                self._put(f"hyperparameters.{key}", "linear", "up to 1.0, beta and epsilon fell with any learning rate")
        self._move(_NETWORK, "network_settings")
        if self._take("use_recurrent") is True:
            self._move(_MEMORY, "network_settings.memory")
        self._reward_signals()
        self._demonstrations()
        self._self_play()
        self._move(_BEHAVIOR, "")
        for key in self._left:
            self._c.left_out[self._name(key)] = self._reason(key)

    # ------------------------------------------------------------ one key

    def _source(self, key: str) -> _Source:
        inherited = key in self._default.data and key not in self._own.data
        return self._default if inherited else self._own

    def _name(self, key: str) -> str:
        return dotted((*self._source(key).path[-1:], key))

    def _refuse(self, key: str, problem: str) -> None:
        self._source(key).refuse(key, problem)

    def _own_or_default(self, key: str) -> Any:
        return self._source(key).data.get(key)

    def _take(self, key: str) -> Any:
        """The value of a key, which is then converted."""
        if self._source(key) is self._default:
            self._c.used.add(self._name(key))
        return self._left.pop(key, None)

    def _block(self, key: str) -> dict[str, Any]:
        """A copy of a block, which is then converted."""
        block = self._source(key).below(key).data
        self._take(key)
        return dict(block)

    def _put(self, key: str, value: Any, comment: str = "") -> None:
        self._c.put((*self._target, *key.split(".")), value, comment)

    def _move(self, keys: Sequence[str], block: str) -> None:
        for key in keys:
            if key in self._left:
                self._put(f"{block}.{key}".removeprefix("."), self._take(key))

    # ------------------------------------------------------------ keys that changed

    def _updates(self) -> None:
        """Write how often SAC updates. Up to 0.15, it took ``num_update`` updates after each ``train_interval``."""
        interval = self._take("train_interval")
        updates = self._take("num_update")
        if interval is not None or updates is not None:
            self._ratio("steps_per_update", interval, updates, "num_update")

    def _ratio(self, key: str, interval: Any, updates: Any, of_updates: str) -> None:
        numbers = [1 if number is None else number for number in (interval, updates)]
        if not all(type(number) in (int, float) and number > 0 for number in numbers):
            self._refuse("train_interval", f"train_interval and {of_updates} must be numbers above 0, not {numbers}")
            return
        ratio = numbers[0] / numbers[1]
        comment = f"train_interval ({numbers[0]}) / {of_updates} ({numbers[1]})"
        self._put(f"hyperparameters.{key}", int(ratio) if ratio.is_integer() else ratio, comment)

    def _reward_signals(self) -> None:
        interval = self._own_or_default("train_interval")
        signals = self._block("reward_signals")
        number, ratio = (signals.pop(key, None) for key in _REWARD_UPDATES)
        if number is not None:
            self._ratio("reward_signal_steps_per_update", interval, number, _REWARD_UPDATES[0])
        if ratio is not None:
            self._put("hyperparameters.reward_signal_steps_per_update", ratio)
        if not signals and "gamma" in self._left:  # up to 0.7
            signals = self._rewards_of_flat_keys()
        for name, signal in signals.items():
            width = None
            if isinstance(signal, Mapping):
                signal = dict(signal)
                width = signal.pop("encoding_size", None)
            self._put(f"reward_signals.{name}", signal)
            if width is not None:
                self._put(f"reward_signals.{name}.network_settings.hidden_units", width, "encoding_size")

    def _rewards_of_flat_keys(self) -> dict[str, Any]:
        gamma = self._take("gamma")
        signals = {"extrinsic": {"strength": 1.0, "gamma": gamma}}
        if self._own_or_default("use_curiosity") is True:
            _, strength, width = (self._take(key) for key in _OF_CURIOSITY)
            keys = {"strength": strength, "gamma": gamma, "encoding_size": width}
            signals["curiosity"] = {key: value for key, value in keys.items() if value is not None}
        return signals

    def _demonstrations(self) -> None:
        for key in ("pretraining", "behavioral_cloning"):  # the name up to 0.11, and later
            if key in self._left:
                self._put("behavioral_cloning", self._block(key))

    def _self_play(self) -> None:
        if "self_play" in self._left:
            block = self._block("self_play")
            self._put("self_play", {_RENAMED.get(key, key): value for key, value in block.items()})

    def _reason(self, key: str) -> str:
        known = (*_OF_ALL, *_WITHOUT_EFFECT, *_NETWORK, *_BEHAVIOR, "reward_signals", "behavioral_cloning", "self_play")
        return _WITHOUT_EFFECT.get(key) or f"not a key of ML-Agents{did_you_mean(key, known)}"
