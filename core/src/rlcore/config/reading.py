"""Reading a YAML file into plain data that remembers the line of every key.

The reader is stricter than YAML: no duplicate keys (the last one would win silently), no tags beyond plain data, text
keys only, and limits on size and depth. Anchors, aliases and merge keys (``<<``) are expanded, and what they expand to
has the limits of a file without them: a small file could stand for gigabytes. A value that an alias repeats keeps the
line it is written on, and has the path it is used at.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcore.config.document import Block, Document, Items, Origin, placed, with_export_block
from rlcore.config.dump import is_broken
from rlcore.config.problems import MAX_PROBLEMS, UNREADABLE, ConfigErrors, Problem, short_repr
from rlcore.config.yaml_forms import LEADING_ZERO, loader_class, missing_space
from rlcore.errors import ConfigError, KeyPath, did_you_mean, dotted
from rlcore.files.reading import DamagedFile, read_regular

if TYPE_CHECKING:
    import yaml

    from rlcore.plugins.call import Plugins

log = logging.getLogger(__name__)

# Limits of a file that someone else may have written: reading it takes seconds and little memory at most.
MAX_BYTES = 1_000_000
MAX_DEPTH = 40
MAX_VALUES = 50_000  # keys, values and blocks of one file; the largest real configurations have some hundred
MAX_WHOLE = 2**64  # no setting takes a larger number

_TAG = "tag:yaml.org,2002:"
_SCALARS = {_TAG + kind for kind in ("null", "bool", "int", "float")}
_MERGE = _TAG + "merge"
_TEXTS = {_TAG + "str", _TAG + "timestamp"}  # no setting is a date: 2026-01-01 is a name


def read_document(path: Path | None) -> Document:
    """Read a file; None gives an empty document. Raises ConfigErrors with file and line."""
    if path is None:
        return Document(None)
    text = _read_text(path)
    if is_broken(text):
        problem = "was edited or is damaged: its first line does not fit the rest (delete it after an edit)"
        log.warning("%s: %s", path, problem)
    return parse_document(text, str(path))


def parse_document(text: str, name: str) -> Document:
    """Parse the text of a file called ``name``. Raises ConfigErrors with file and line."""
    import yaml

    reader = _Reader(name)
    try:
        reader.check_events(yaml.parse(text, Loader=loader_class()))
        loader = loader_class()(text)
        try:
            root = loader.get_single_node()
            data = Block() if root is None else reader.read(loader, root)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        raise _unparsable(text, name, error) from None
    except UnicodeEncodeError:
        raise _refused(name, "not UTF-8 text") from None
    except yaml.YAMLError as error:
        raise _refused(name, f"not valid YAML: {' '.join(str(error).split())}") from None
    if reader.problems:
        raise ConfigErrors(reader.problems)
    return Document(name, with_export_block(data))


def _unparsable(text: str, name: str, error: yaml.MarkedYAMLError) -> ConfigErrors:
    """The error about the place where YAML stopped."""
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return _refused(name, f"not valid YAML: {error.problem or error.context}")
    line = mark.line
    problem = error.problem or error.context
    if text[mark.index : mark.index + 1] == "\t":  # YAML's own message does not show it
        problem = "a tab; indent with spaces"
    elif line and str(problem).startswith("mapping values"):
        # YAML continues "trainer_type:ppo" as a text and stops at the colon of the line below.
        advice = missing_space(text.split("\n")[line - 1].strip())
        if advice:
            line -= 1
            problem = advice
    return _refused(f"{name}:{line + 1}", f"not valid YAML: {problem}")


def in_collection(path: Path, attribute: str = "target") -> Path | None:
    """Find a path such as ``zoo:ppo/CartPole-v1`` with the ``attribute`` of a plugin's collection.

    None for a path that names no collection, and for a collection without the attribute.
    """
    collection, _, file = str(path).partition(":")
    if not file or path.drive or os.sep in collection:
        return None
    from rlcore.plugins.call import load_plugins
    from rlcore.plugins.select import selection_from

    record = load_plugins(selection_from()).record_of_kind("collection", collection)
    if getattr(record, attribute, None) is None:
        return None
    found: Path = record.resolve(attribute)(file)
    return found


def file_for(given: Mapping[str, Any], plugins: Plugins) -> Document | None:
    """The first file that a collection of plugins has for the environment and the trainer that are ``given``."""
    for record in plugins.records("collection") if "collection" in plugins.kinds else ():
        if getattr(record, "for_environment", None) is None:
            continue
        name = record.resolve("for_environment")(given)
        if name is not None:
            return parse_document(_read_text(record.resolve()(name)), f"{record.name}:{name}")
    return None


def document_from_mapping(data: Mapping[str, Any]) -> Document:
    """A document without a file, from plain data made in Python."""
    plain = _plain_mapping(data, ())
    block = placed(plain, Origin("", 0, ()))
    return Document(None, with_export_block(block))


def _refused(place: str, message: str) -> ConfigErrors:
    return ConfigErrors([Problem(place, "", message, code=UNREADABLE)])


def _read_text(path: Path) -> str:
    try:
        content = read_regular(path, MAX_BYTES)
    except FileNotFoundError:
        collected = in_collection(path)
        if collected is not None:
            return _read_text(collected)
        hint = did_you_mean(str(path), map(str, path.parent.glob("*.y*ml")))
        raise _refused(f"{path}", f"no such file{hint}") from None
    except DamagedFile as error:
        problem = f"{str(error).removeprefix(f'{path}: ')}; this is not a configuration file"
        if (path / "configuration.yaml").is_file():
            problem = f"is a run; resume it with --resume --run-id {path.name}"
        raise _refused(f"{path}", problem) from None
    try:
        return content.decode("utf-8-sig")  # some editors of Windows write a byte order mark
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _refused(f"{path}:{line}", "not UTF-8 text; save the file as UTF-8") from None


class _Reader:
    """Turns the YAML nodes of one file into nodes with origins, and collects problems."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._problems: dict[tuple[int, str], Problem] = {}  # once for a node that aliases repeat
        self._values = 0  # read so far; an alias counts as often as it is used
        self._letters = 0
        self._open: set[int] = set()  # the blocks around the value that is read, by identity

    def check_events(self, events: Iterator[yaml.Event]) -> None:
        """Refuse bottomless nesting, too many values and anchors of one name before anything is built."""
        import yaml

        depth = 0
        anchors: dict[str, int] = {}
        for count, event in enumerate(events):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            anchor = None if isinstance(event, yaml.AliasEvent) else getattr(event, "anchor", None)
            problem = ""
            if count > MAX_VALUES:
                problem = f"holds more than {MAX_VALUES:,} values; no configuration does"
            elif depth > MAX_DEPTH:
                problem = f"nested deeper than {MAX_DEPTH} levels"
            elif anchor in anchors:
                problem = f"the anchor &{anchor} is on line {anchors[anchor]} already; give one of them another name"
            if problem:
                raise _refused(self._place(event), problem)
            if anchor is not None:
                anchors[anchor] = _line(event)

    def read(self, loader: yaml.SafeLoader, root: yaml.Node) -> Block:
        import yaml

        if isinstance(root, yaml.ScalarNode) and root.tag == _TAG + "null":
            return Block()
        if isinstance(root, yaml.MappingNode):
            data = self._value(loader, root, ())
            if isinstance(data, Block):
                return data
        if self.problems:
            raise ConfigErrors(self.problems)
        raise _refused(self._place(root), "the file must be a mapping such as 'behaviors: ...'")

    def _value(self, loader: yaml.SafeLoader, node: yaml.Node, path: KeyPath) -> Any:
        import yaml

        self._count(node, path)
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            with self._inside(node, path):
                return self._mapping(loader, node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            entries = []
            with self._inside(node, path):
                for index, child in enumerate(node.value):
                    below = (*path, index)
                    value = self._value(loader, child, below)
                    entries.append((value, self._origin(child, below)))
            return Items(entries)
        if isinstance(node, yaml.ScalarNode):
            if node.tag in _TEXTS:
                return node.value
            if node.tag in _SCALARS:
                return self._scalar(loader, node, path)
        self._problem(node, path, f"YAML tag {node.tag.replace(_TAG, '!!')} is not allowed; write plain values")
        return None

    def _scalar(self, loader: yaml.SafeLoader, node: yaml.ScalarNode, path: KeyPath) -> Any:
        """The value of a scalar that is not text; None after a problem."""
        text = node.value
        if ":" in text:  # YAML 1.1 reads 1:30 as ninety
            return text
        if LEADING_ZERO.match(text):  # 8 in YAML 1.1, 10 in YAML 1.2
            problem = f"{short_repr(text)} has a leading zero; write {int(text, 10)}, or '{text}' for a text"
            self._problem(node, path, problem)
            return None
        try:
            value = loader.construct_object(node)
            if isinstance(value, int) and abs(value) > MAX_WHOLE:
                raise ValueError("too large")
            if value in (math.inf, -math.inf) and "inf" not in text.lower():  # 1e999
                raise ValueError("too large")
            return value
        except (ValueError, LookupError):  # "!!int abc", "!!bool abc", or more digits than int() takes
            self._problem(node, path, f"{short_repr(text)} is not a valid {node.tag.removeprefix(_TAG)}")
            return None

    def _count(self, node: yaml.Node, path: KeyPath) -> None:
        """Refuse what aliases expand to beyond the limits of a file without aliases."""
        self._values += 1
        if isinstance(node.value, str):
            self._letters += len(node.value)
        if self._values > MAX_VALUES or self._letters > MAX_BYTES:
            limits = f"at most {MAX_VALUES:,} values of {MAX_BYTES:,} letters are allowed"
            expansion = f"more than a configuration holds; {limits}"
        elif len(path) > MAX_DEPTH:
            expansion = f"nested deeper than {MAX_DEPTH} levels"
        else:
            return
        raise _refused(self._place(node), f"{dotted(path[:3])}: aliases (*) expand this to {expansion}")

    @contextmanager
    def _inside(self, node: yaml.Node, path: KeyPath) -> Iterator[None]:
        """Refuse a block that an alias puts into itself, while the block is read."""
        if id(node) in self._open:
            raise _refused(self._place(node), f"{dotted(path[:3])}: an alias (*) inside this block repeats the block")
        self._open.add(id(node))
        yield
        self._open.discard(id(node))

    def _mapping(self, loader: yaml.SafeLoader, node: yaml.MappingNode, path: KeyPath) -> Block:
        """The entries of a mapping: what its merge key adds, and its own ones over it."""
        block = Block()
        lines = dict[str, int]()
        # The merge key first: the mapping's own entries replace what it adds, wherever it is written.
        in_order = sorted(node.value, key=lambda pair: pair[0].tag != _MERGE)
        for key_node, value_node in in_order:
            key = getattr(key_node, "value", None)
            if key_node.tag not in (*_TEXTS, _MERGE) or not isinstance(key, str):
                hint = f"; write '{key}'" if isinstance(key, str) else ""
                self._problem(key_node, path, f"keys must be text{hint}")
                continue
            self._letters += len(key)
            has_value = value_node.tag != _TAG + "null" or value_node.value != ""
            advice = "" if has_value or not node.flow_style else missing_space(key)  # {a:1}
            if advice:
                self._problem(key_node, path, advice)
                continue
            below = (*path, key)
            if key in lines:
                self._problem(key_node, below, f"duplicate key (first on line {lines[key]})")
                continue
            lines[key] = _line(key_node)
            if key_node.tag == _MERGE:
                self._merge(loader, value_node, path, block)
            else:
                value = self._value(loader, value_node, below)
                block.put(key, value, self._origin(key_node, below))
        return block

    def _merge(self, loader: yaml.SafeLoader, node: yaml.Node, path: KeyPath, block: Block) -> None:
        """Add the entries of a merge key to a block. Of several mappings the first one wins, as in YAML."""
        import yaml

        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for source in reversed(sources):
            mapping = None
            if isinstance(source, yaml.MappingNode):
                mapping = self._value(loader, source, path)
            if not isinstance(mapping, Block):
                self._problem(source, path, "a merge key (<<) needs a mapping, such as <<: *name, or a list of them")
                continue
            for key, value, origin in mapping.entries():
                block.put(key, value, origin)

    def _origin(self, node: yaml.Node, path: KeyPath) -> Origin:
        return Origin(self._place(node), _line(node), path)

    @property
    def problems(self) -> list[Problem]:
        return list(self._problems.values())

    def _problem(self, node: yaml.Node, path: KeyPath, message: str) -> None:
        line = _line(node)
        problem = Problem(self._place(node), dotted(path), message, line)
        self._problems.setdefault((id(node), message), problem)
        if len(self._problems) >= MAX_PROBLEMS:
            raise ConfigErrors(self.problems)

    def _place(self, marked: yaml.Node | yaml.Event) -> str:
        return f"{self.name}:{_line(marked)}"


def _line(marked: yaml.Node | yaml.Event) -> int:
    mark = marked.start_mark
    return mark.line + 1 if mark else 1


def _plain_mapping(data: Mapping[Any, Any], path: KeyPath) -> dict[str, Any]:
    for key in data:
        if not isinstance(key, str):
            raise ConfigError(f"{dotted(path)}: keys must be text, not {short_repr(key)}".lstrip(": "))
    return {key: _plain(value, (*path, key)) for key, value in data.items()}


def _plain(value: Any, path: KeyPath) -> Any:
    if type(value) is int and abs(value) > MAX_WHOLE:
        raise ConfigError(f"{dotted(path)}: {short_repr(value)} is too large a whole number")
    if value is None or type(value) in (bool, int, float, str):  # exact: numpy's float64 is a float, but not plain
        return value
    if isinstance(value, Mapping):
        return _plain_mapping(value, path)
    if isinstance(value, list | tuple):
        return [_plain(element, (*path, index)) for index, element in enumerate(value)]
    raise ConfigError(
        f"{dotted(path)}: must be plain data (null, true, number, text, list or mapping), not {short_repr(value)}; "
        f"the configuration is written to a file{object_hint(value)}"
    )


def object_hint(value: Any) -> str:
    """Return how a configuration names an environment, if ``value`` is one, or its class; else an empty string."""
    if not (hasattr(value, "reset") and hasattr(value, "step")):
        return ""
    return "; give an environment, or a function that makes it, beside the configuration: Run(config, environment=...)"
