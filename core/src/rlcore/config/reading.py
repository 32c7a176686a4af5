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
from rlcore.config.problems import MAX_PROBLEMS, ConfigErrors, Problem, shown
from rlcore.config.yaml_forms import LEADING_ZERO, loader_class, missing_space
from rlcore.errors import ConfigError, KeyPath, did_you_mean, dotted
from rlcore.files.reading import DamagedFile, read_regular

if TYPE_CHECKING:
    import yaml

log = logging.getLogger(__name__)

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
        log.warning(
            "%s: was edited or is damaged: its first line does not fit the rest (delete it after an edit)", path
        )
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
        mark = error.problem_mark or error.context_mark
        found = "a tab; indent with spaces" if _is_tab(text, mark) else error.problem or error.context
        line = mark.line if mark else 0
        # YAML continues "trainer_type:ppo" as a text and stops at the colon of the line below.
        above = text.split("\n")[line - 1].strip() if line and str(found).startswith("mapping values") else ""
        if advice := missing_space(above):
            line = line - 1
            found = advice
        raise _refused(f"{name}:{line + 1}" if mark else name, f"not valid YAML: {found}") from None
    except UnicodeEncodeError:
        raise _refused(name, "not UTF-8 text") from None
    except yaml.YAMLError as error:
        raise _refused(name, f"not valid YAML: {' '.join(str(error).split())}") from None
    if reader.problems:
        raise ConfigErrors(reader.problems)
    return Document(name, with_export_block(data))


def document_from_mapping(data: Mapping[str, Any]) -> Document:
    """A document without a file, from plain data made in Python."""
    return Document(None, with_export_block(placed(_plain_mapping(data, ()), Origin("", 0, ()))))


def _refused(place: str, message: str) -> ConfigErrors:
    return ConfigErrors([Problem(place, "", message)])


def _read_text(path: Path) -> str:
    try:
        content = read_regular(path, MAX_BYTES)
    except FileNotFoundError:
        collection, _, file = str(path).partition(":")
        if file and not path.drive and os.sep not in collection:
            from rlcore.plugins.call import load_plugins
            from rlcore.plugins.select import selection_from

            plugins = load_plugins(selection_from())
            return _read_text(plugins.record_of_kind("collection", collection).resolve()(file))
        hint = did_you_mean(str(path), map(str, path.parent.glob("*.y*ml")))
        raise _refused(f"{path}", f"no such file{hint}") from None
    except DamagedFile as error:
        problem = f"{str(error).removeprefix(f'{path}: ')}; this is not a configuration file"
        if (path / "configuration.yaml").is_file():
            problem = f"is a run; resume it with --resume --run-id {path.name}"
        raise _refused(f"{path}", problem) from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _refused(f"{path}:{line}", "not UTF-8 text; save the file as UTF-8") from None


def _is_tab(text: str, mark: yaml.Mark | None) -> bool:
    """Whether YAML stopped at a tab, which its own message does not show."""
    return mark is not None and mark.index < len(text) and text[mark.index] == "\t"


class _Reader:
    """Turns the YAML nodes of one file into nodes with origins, and collects problems."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._found: dict[tuple[int, str], Problem] = {}  # once for a node that aliases repeat
        self._values = 0  # read so far; an alias counts as often as it is used
        self._letters = 0
        self._open: set[int] = set()  # the blocks around the value that is read, by identity

    def check_events(self, events: Iterator[yaml.Event]) -> None:
        """Refuse bottomless nesting, too many values and anchors of one name before anything is built."""
        import yaml

        depth = 0
        anchors: dict[str, int] = {}
        for count, event in enumerate(events):
            anchor = None if isinstance(event, yaml.AliasEvent) else getattr(event, "anchor", None)
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
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
        data = self._value(loader, root, ()) if isinstance(root, yaml.MappingNode) else None
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
            paths = [(*path, index) for index in range(len(node.value))]
            with self._inside(node, path):
                return Items(
                    (self._value(loader, child, at), self._origin(child, at))
                    for child, at in zip(node.value, paths, strict=True)
                )
        if isinstance(node, yaml.ScalarNode):
            if node.tag in _TEXTS or (node.tag in _SCALARS and ":" in node.value):  # 1:30 is not ninety
                return node.value
            if node.tag in _SCALARS:
                if LEADING_ZERO.match(node.value):  # 8 in YAML 1.1, 10 in YAML 1.2
                    meant = int(node.value, 10)
                    problem = f"{shown(node.value)} has a leading zero; write {meant}, or '{node.value}' for a text"
                    self._problem(node, path, problem)
                    return None
                try:
                    value = loader.construct_object(node)
                    if isinstance(value, int) and abs(value) > MAX_WHOLE:
                        raise ValueError("too large")
                    if value in (math.inf, -math.inf) and "inf" not in node.value.lower():  # 1e999
                        raise ValueError("too large")
                    return value
                except (ValueError, LookupError):  # "!!int abc", "!!bool abc", or more digits than int() takes
                    self._problem(node, path, f"{shown(node.value)} is not a valid {node.tag.removeprefix(_TAG)}")
                    return None
        self._problem(node, path, f"YAML tag {node.tag.replace(_TAG, '!!')} is not allowed; write plain values")
        return None

    def _count(self, node: yaml.Node, path: KeyPath) -> None:
        """Refuse what aliases expand to beyond the limits of a file without aliases."""
        self._values += 1
        self._letters += len(node.value) if isinstance(node.value, str) else 0
        too_many = self._values > MAX_VALUES or self._letters > MAX_BYTES
        if too_many or len(path) > MAX_DEPTH:
            what = f"nested deeper than {MAX_DEPTH} levels" if not too_many else "more than a configuration holds"
            limits = f"; at most {MAX_VALUES:,} values of {MAX_BYTES:,} letters are allowed" if too_many else ""
            raise _refused(self._place(node), f"{dotted(path[:3])}: aliases (*) expand this to {what}{limits}")

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
        for key_node, value_node in sorted(node.value, key=lambda pair: pair[0].tag != _MERGE):
            key = getattr(key_node, "value", None)
            if key_node.tag not in (*_TEXTS, _MERGE) or not isinstance(key, str):
                hint = f"; write '{key}'" if isinstance(key, str) else ""
                self._problem(key_node, path, f"keys must be text{hint}")
                continue
            self._letters += len(key)
            no_value = value_node.tag == _TAG + "null" and value_node.value == ""
            if node.flow_style and no_value and (advice := missing_space(key)):
                self._problem(key_node, path, advice)
                continue
            child = (*path, key)
            if key in lines:
                self._problem(key_node, child, f"duplicate key (first on line {lines[key]})")
                continue
            lines[key] = _line(key_node)
            if key_node.tag == _MERGE:
                self._merge(loader, value_node, path, block)
            else:
                block.put(key, self._value(loader, value_node, child), self._origin(key_node, child))
        return block

    def _merge(self, loader: yaml.SafeLoader, node: yaml.Node, path: KeyPath, block: Block) -> None:
        """Add the entries of a merge key to a block. Of several mappings the first one wins, as in YAML."""
        import yaml

        for each in reversed(node.value if isinstance(node, yaml.SequenceNode) else [node]):
            found = self._value(loader, each, path) if isinstance(each, yaml.MappingNode) else None
            if not isinstance(found, Block):
                self._problem(each, path, "a merge key (<<) needs a mapping, such as <<: *name, or a list of them")
                continue
            for key, value, origin in found.entries():
                block.put(key, value, origin)

    def _origin(self, node: yaml.Node, path: KeyPath) -> Origin:
        return Origin(self._place(node), _line(node), path)

    @property
    def problems(self) -> list[Problem]:
        return list(self._found.values())

    def _problem(self, node: yaml.Node, path: KeyPath, message: str) -> None:
        problem = Problem(self._place(node), dotted(path), message, _line(node))
        self._found.setdefault((id(node), message), problem)
        if len(self._found) >= MAX_PROBLEMS:
            raise ConfigErrors(self.problems)

    def _place(self, marked: yaml.Node | yaml.Event) -> str:
        return f"{self.name}:{_line(marked)}"


def _line(marked: yaml.Node | yaml.Event) -> int:
    return (marked.start_mark.line if marked.start_mark else 0) + 1


def _plain_mapping(data: Mapping[Any, Any], path: KeyPath) -> dict[str, Any]:
    for key in data:
        if not isinstance(key, str):
            raise ConfigError(f"{dotted(path)}: keys must be text, not {shown(key)}".lstrip(": "))
    return {key: _plain(value, (*path, key)) for key, value in data.items()}


def _plain(value: Any, path: KeyPath) -> Any:
    if type(value) is int and abs(value) > MAX_WHOLE:
        raise ConfigError(f"{dotted(path)}: {shown(value)} is too large a whole number")
    if value is None or type(value) in (bool, int, float, str):  # exact: numpy's float64 is a float, but not plain
        return value
    if isinstance(value, Mapping):
        return _plain_mapping(value, path)
    if isinstance(value, list | tuple):
        return [_plain(element, (*path, index)) for index, element in enumerate(value)]
    raise ConfigError(
        f"{dotted(path)}: must be plain data (null, true, number, text, list or mapping), not {shown(value)}; "
        f"the configuration is written to a file{object_hint(value)}"
    )


def object_hint(value: Any) -> str:
    """Return how a configuration names an environment, if ``value`` is one, or its class; else an empty string."""
    if not (hasattr(value, "reset") and hasattr(value, "step")):
        return ""
    return "; give an environment, or a function that makes it, beside the configuration: Run(config, environment=...)"
