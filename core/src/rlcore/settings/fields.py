"""Declaring a settings field: type, default, range and description in one place.

Error messages, the JSON schema and the generated reference use the same description and limits.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, Literal, NoReturn

import attrs

from rlcore.errors import ConfigError, PluginError


@attrs.frozen
class Choice:
    """A record that decides which class the settings of a block have: a name in the file chooses the record.

    As the ``ClassVar`` ``chosen`` of a settings class, for blocks that name their record themselves, and as ``chooses``
    of a field. A class with such fields may declare a field ``records`` that is not a key: it gets the chosen records
    by the keys that name them.

    Attributes:
        kind: Kind of the record, such as ``"optimizer"``.
        key: The key that names the record, in the block itself or beside the field.
        problem: Returns why a record of this kind cannot be chosen here, or None.
        by: What names the record of a field: ``"key"`` for another key of the class, ``"name"`` for a mapping whose
            keys name records, ``"claim"`` for blocks beside the field that belong to the records of their names.
        attribute: The attribute of the record that names the class.
        each: Whether the field is a mapping, each of whose entries has that class.
        otherwise: The type of the settings if the record names no class; None refuses settings.
        refusal: The message about such settings, after the record.
        flat: With ``by="claim"``: whether the keys of the settings class are beside the field, not in a block.
        switch: With ``by="name"``: whether ``false`` turns a record off.
        absent: The class of the settings if the configuration is loaded to measure policies, and the plugin is absent.
    """

    kind: str
    key: str = "type"
    problem: Callable[[Any], str | None] = lambda record: None
    by: Literal["key", "name", "claim"] = attrs.field(default="key", kw_only=True)
    attribute: str = attrs.field(default="settings", kw_only=True)
    each: bool = attrs.field(default=False, kw_only=True)
    otherwise: Any = attrs.field(default=None, kw_only=True)
    refusal: str = attrs.field(default="has no settings; leave it out", kw_only=True)
    flat: bool = attrs.field(default=False, kw_only=True)
    switch: bool = attrs.field(default=False, kw_only=True)
    absent: type | None = attrs.field(default=None, kw_only=True)

    @staticmethod
    def of(declared: Any) -> Choice | None:
        """Return the choice of the class of a block that is declared as ``declared``; None if it is that class.

        A class derived from one with a choice is the class of a record, and is itself.
        """
        choice = vars(declared).get("chosen") if isinstance(declared, type) else None
        return choice if isinstance(choice, Choice) else None


class SettingError(ConfigError):
    """A settings class refuses the value of a field.

    Raise it in ``__attrs_post_init__`` for a rule between fields: ``SettingError("low", "must be less than high",
    others=("high",))``. The error is reported at the line of ``field``. ``others`` are the other fields of the rule;
    while one of them is wrong itself, the rule is not reported.
    """

    def __init__(self, field: str, problem: str, *, others: Iterable[str] = (), cls: type | None = None) -> None:
        place = field if cls is None else f"{cls.__name__}.{field}"
        super().__init__(f"{place}: {problem}")
        self.field = field
        self.problem = problem
        self.others = tuple(others)


@attrs.frozen
class FieldInfo:
    """Description and limits of a settings field.

    Attributes:
        METADATA_KEY: The key of the information in the metadata of an attrs attribute.
        description: A sentence for the docs, the JSON schema and error messages.
        minimum: Smallest allowed value; None: no limit.
        maximum: Largest allowed value; None: no limit.
        exclusive_minimum: Value that must be exceeded; None: no limit.
        choices: The allowed values; None: any. Of a ``record``, words that may stand in place of its name.
        check: Returns the problem of a value that is not None, or None.
        secret: Whether the value is neither written to a file nor shown.
        record: Kind of the record that the text names, such as ``"schedule"``; None for other values.
        key: Whether a file may have the field; rlcore fills in the others.
        chooses: The record, named by another key, whose settings class the value has; None for other values.
        foreign: Whether a configuration of a stranger may set the field, or a function of a text that says so; None:
            numbers, switches and known names may be set, other texts not.
    """

    METADATA_KEY: ClassVar[str] = "rlcore"

    description: str
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: float | None = None
    choices: tuple[Any, ...] | None = None
    check: Callable[[Any], str | None] | None = None
    secret: bool = False
    record: str | None = None
    key: bool = True
    chooses: Choice | None = None
    foreign: bool | Callable[[str], bool] | None = None

    @staticmethod
    def of(attribute: attrs.Attribute[Any]) -> FieldInfo:
        """Return the :class:`FieldInfo` of an attrs attribute; an empty one if :func:`setting` did not declare it."""
        info = attribute.metadata.get(FieldInfo.METADATA_KEY)
        return info if isinstance(info, FieldInfo) else FieldInfo("")

    @staticmethod
    def default_of(attribute: attrs.Attribute[Any]) -> Any:
        """Return the default of a field; attrs.NOTHING if the field has none."""
        default: Any = attribute.default
        if not isinstance(default, attrs.Factory):  # type: ignore[arg-type]
            return default
        return attrs.NOTHING if default.takes_self else default.factory()

    @staticmethod
    def fields_of(cls: type) -> dict[str, attrs.Attribute[Any]]:
        """Return the fields of a settings class by their key in a file. Raises PluginError for another class."""
        if not attrs.has(cls):
            raise PluginError(f"{cls.__module__}.{cls.__qualname__}: a settings class must be an attrs class")
        fields = {}
        for attribute in attrs.fields(cls):
            if attribute.init and FieldInfo.of(attribute).key:
                fields[attribute.alias or attribute.name] = attribute
        return fields

    @staticmethod
    @lru_cache(maxsize=256)
    def types_of(cls: type) -> Mapping[str, Any]:
        """Return the types of a settings class by attribute. Raises PluginError for one that cannot be resolved."""
        try:
            return typing.get_type_hints(cls)
        except NameError as error:
            raise PluginError(
                f"{cls.__module__}.{cls.__qualname__}: {error}; a settings class needs its types at run time, "
                "so import them outside TYPE_CHECKING"
            ) from error

    def problem(self, value: Any) -> str | None:
        """Return the problem of a value of the right type, or None. The limits of a list apply to each element."""
        if value is None:
            return None
        if isinstance(value, list | tuple | set | frozenset):
            for element in value:
                problem = self.problem(element)
                if problem:
                    return f"each {problem}"
            return None
        if self.record is None and self.choices is not None and value not in self.choices:
            return f"must be one of {', '.join(map(str, self.choices))}"
        # "not at least" instead of "below", so that NaN is refused too.
        if self.minimum is not None and not value >= self.minimum:
            return f"must be at least {self.minimum:g}"
        if self.exclusive_minimum is not None and not value > self.exclusive_minimum:
            return f"must be greater than {self.exclusive_minimum:g}"
        if self.maximum is not None and not value <= self.maximum:
            return f"must be at most {self.maximum:g}"
        return None if self.check is None else self.check(value)


class ReadOnlyDict(dict[str, Any]):
    """A dict whose entries cannot be set or removed. ``dict(mapping)`` and ``{**mapping}`` are copies that can."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(
            "a configuration cannot be changed after it was checked; copy a mapping with dict(...), and settings with "
            "attrs.evolve(...)"
        )

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[ReadOnlyDict], tuple[dict[str, Any]]]:
        return type(self), (dict(self),)


def read_only(value: Any) -> Any:
    """Return a dict as a :class:`ReadOnlyDict`, and any other value as it is.

    Dicts inside it stay as they are: an environment may get them as arguments, and they are its own then.
    """
    # Exactly a dict: a subclass is what a plugin made of it, and a ReadOnlyDict is one already.
    return ReadOnlyDict(value) if type(value) is dict else value


def setting(
    default: Any = attrs.NOTHING,
    description: str = "",
    *,
    factory: Callable[[], Any] | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    exclusive_minimum: float | None = None,
    choices: Iterable[Any] | None = None,
    check: Callable[[Any], str | None] | None = None,
    secret: bool = False,
    record: str | None = None,
    chooses: Choice | None = None,
    foreign: bool | Callable[[str], bool] | None = None,
) -> Any:
    """Declare a field of a settings class (an ``attrs.frozen(kw_only=True)`` class). Its mappings cannot be changed.

    ``description`` is a sentence for the docs, the JSON schema and error messages. A field without ``default`` and
    ``factory`` is required. A value below ``minimum``, not above ``exclusive_minimum``, above ``maximum`` or not among
    ``choices`` raises :class:`SettingError`; of a list, each element is checked.

    ``check(value)`` returns what is wrong with a value, such as ``"must be even"``,
    or None; a list's elements are checked one by one. A ``secret``, such as a password, is not in the
    ``configuration.yaml`` of a run and its checkpoints, nor in messages; a resumed run needs it again. ``record`` is
    the kind of the record that a text names, such as ``"schedule"``: a file may have the registered names only, and
    the words of ``choices``.
    ``chooses`` says whose settings the field has, if another key names a record.

    ``foreign`` says whether a configuration that ``rlcore pull`` downloads may set the field. By default, numbers,
    switches, and names of records, ``choices`` and ``Literal`` may be set. A text that names no program, file, address
    or code of this machine needs ``foreign=True``, or a function that returns whether it is such a text
    (``rlcore.is_plain_name``). A switch or number that starts, opens or sends something needs ``foreign=False``.
    """
    allowed = tuple(choices) if choices is not None else None
    info = FieldInfo(
        description,
        minimum,
        maximum,
        exclusive_minimum,
        allowed,
        check,
        secret,
        record,
        chooses=chooses,
        foreign=foreign,
    )

    def validate(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        problem = info.problem(value)
        if not problem:
            return
        if not secret:
            problem = f"{problem}, not {value!r}"
        raise SettingError(attribute.alias or attribute.name, problem, cls=type(instance))

    if factory is not None:
        default = attrs.Factory(factory)
    metadata = {FieldInfo.METADATA_KEY: info}
    return attrs.field(default=default, metadata=metadata, validator=validate, converter=read_only, repr=not secret)


def check_by_bases(settings: Any) -> None:
    """Call each ``__attrs_post_init__`` of a base class that a subclass has replaced without calling it.

    A class that adds a rule must not lose those of the class that it derives from. Raises what they raise.
    """
    name = "__attrs_post_init__"
    checks = [vars(cls)[name] for cls in type(settings).__mro__ if name in vars(cls)]
    for check, check_of_base in pairwise(checks):
        code = getattr(check, "__code__", None)
        if code is not None and name not in code.co_names:  # it does not call super().__attrs_post_init__()
            check_of_base(settings)
