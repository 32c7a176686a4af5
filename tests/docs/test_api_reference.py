"""The API reference has every name that plugins may use, with a complete text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import api_reference
import griffe
import pytest
from api_reference import SOURCES, PublicName, definition, packages, plain, reference
from pages import blocks
from workspace import PLUGINS, ROOT

from rlcore_devkit.scaffold.kinds import KINDS
from rlcore_devkit.scaffold.names import new_package
from rlcore_devkit.scaffold.writing import write_plugin

pytestmark = pytest.mark.documentation

ARRAY = re.compile(r"\b(NDArray|Tensor)\b")
SHAPE = re.compile(r"\[[^\]]*\]|``rows``|\b(slots|shape)\b")


def names() -> list[PublicName]:
    return [name for page in reference().values() for name in page]


# ---------------------------------------------------------------- which names are public


def sources() -> Iterator[tuple[str, str]]:
    """Yield the Python code that stands for that of other people: pages, examples, and our own plugins."""
    for block in (*blocks("python"), *blocks("py")):
        if parses(block.text):  # a block of "py" may be a part of a file
            yield str(block), block.text
    files = [path for folder in ("examples", "docs") for path in (ROOT / folder).rglob("*.py")]
    for member in PLUGINS:
        files += member.package.rglob("*.py")
    for path in files:
        if path != ROOT / "docs/generate.py":  # reads the core to describe it
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def parses(code: str) -> bool:
    try:
        ast.parse(code)
    except SyntaxError:
        return False
    return True


def imported(code: str, where: str = "") -> set[str]:
    """Return the paths of the names that the code imports from packages of the reference, except from its own."""
    others = SOURCES.keys() - set(Path(where).parts)
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in others:
            found |= {f"{node.module}.{alias.name}" for alias in node.names if not alias.name.startswith("__")}
    return found


def test_every_name_that_pages_examples_and_plugins_import_is_in_the_reference(tmp_path: Path) -> None:
    public = {f"{module}.{name.target.rpartition('.')[2]}" for name in names() for module in name.imports}
    modules = {module.path for each in packages().values() for module in api_reference.modules(each)}
    used = {path: where for where, code in sources() for path in imported(code, where)}
    for kind in KINDS:
        for file in write_plugin(new_package("acme", [kind]), tmp_path / kind).rglob("*.py"):
            used |= dict.fromkeys(imported(file.read_text(encoding="utf-8")), f"rlcore plugins new --kind {kind}")
    assert len(used) > 100
    missing = {path: where for path, where in used.items() if path not in public | modules}
    assert missing == {}, "add the names to __init__.pyi of the package, or to __all__ of the module"


# ---------------------------------------------------------------- texts


def own_members(cls: griffe.Class) -> Iterator[griffe.Function | griffe.Attribute]:
    """Yield the public methods, properties and fields of a class; tests of conformance classes need no text."""
    for name, member in cls.members.items():
        if isinstance(member, griffe.Function | griffe.Attribute) and not name.startswith(("_", "test_")):
            yield member


def bases(cls: griffe.Class) -> list[griffe.Class]:
    return [base for base in cls.mro() if isinstance(base, griffe.Class) and base.package.path in SOURCES]


def is_field(attribute: griffe.Attribute) -> bool:
    """Whether the attribute is declared in the body of the class; others are public only if the text lists them."""
    init = attribute.parent.members.get("__init__") if attribute.parent is not None else None
    inside = init is not None and init.lineno and init.lineno <= (attribute.lineno or 0) <= (init.endlineno or 0)
    return "property" not in attribute.labels and not inside


def listed(cls: griffe.Class) -> dict[str, str]:
    """Return the texts of the section "Attributes" by name."""
    sections = cls.docstring.parse("google", warnings=False) if cls.docstring is not None else []
    kind = griffe.DocstringSectionKind.attributes
    return {each.name: each.description for section in sections if section.kind is kind for each in section.value}


def text_of(documented: griffe.Object) -> str:
    """Return the docstring as ``help()`` shows it: that of a base class if there is none."""
    if documented.docstring is not None or not isinstance(documented.parent, griffe.Class):
        return documented.docstring.value if documented.docstring is not None else ""
    inherited = (base.members.get(documented.name) for base in bases(documented.parent))
    return next((each.docstring.value for each in inherited if each is not None and each.docstring is not None), "")


def functions(name: PublicName) -> Iterator[griffe.Function]:
    documented = definition(name)
    if isinstance(documented, griffe.Function):
        yield documented
    elif isinstance(documented, griffe.Class):
        yield from (member for member in own_members(documented) if isinstance(member, griffe.Function))


def test_public_names_have_a_text_and_so_have_their_methods_and_fields() -> None:
    missing = []
    for name in names():
        documented = definition(name)
        missing += [] if text_of(documented) else [name.target]
        if isinstance(documented, griffe.Class):
            fields = {key for cls in (documented, *bases(documented)) for key in listed(cls)}
            for member in own_members(documented):
                if isinstance(member, griffe.Attribute) and "property" not in member.labels:
                    missing += [member.path] if is_field(member) and member.name not in fields else []
                else:
                    missing += [] if text_of(member) else [member.path]
    assert missing == []


def test_the_bases_of_public_classes_are_public() -> None:
    classes = [each for each in map(definition, names()) if isinstance(each, griffe.Class)]
    assert {base.path for cls in classes for base in bases(cls)} <= {name.target for name in names()}


def test_listed_attributes_exist() -> None:
    missing = []
    for documented in map(definition, names()):
        if isinstance(documented, griffe.Class):
            known = {key for cls in (documented, *bases(documented)) for key in cls.members}
            known |= set(re.findall(r"self\.(\w+)", documented.source))
            missing += [f"{documented.path}.{key}" for key in listed(documented) if key not in known]
    assert missing == []


def test_texts_of_arrays_have_their_shapes() -> None:
    missing = []
    for name in names():
        documented = definition(name)
        for key, text in listed(documented).items() if isinstance(documented, griffe.Class) else ():
            attribute = documented.all_members.get(key)
            annotation = str(attribute.annotation) if isinstance(attribute, griffe.Attribute) else ""
            if ARRAY.search(annotation) and not SHAPE.search(text):
                missing.append(f"{documented.path}.{key}")
        for function in functions(name):
            annotations = [str(each.annotation) for each in function.parameters] + [str(function.returns)]
            if any(map(ARRAY.search, annotations)) and not SHAPE.search(text_of(function)):
                missing.append(function.path)
    assert missing == []


# ---------------------------------------------------------------- links


ROLE = re.compile(r":(?:class|meth|func|mod|attr|data|exc):`~?([^`]+)`")


def test_roles_in_docstrings_name_what_exists() -> None:
    wrong = []
    for documented in (each for package in plain().values() for each in api_reference.objects(package)):
        for name in ROLE.findall(documented.docstring.value) if documented.docstring is not None else ():
            if name.partition(".")[0] in ("click", "numpy", "time", "torch"):
                continue
            if api_reference.meant(name, documented.path) is None:
                wrong.append(f"{documented.path}: {name}")
    assert wrong == []
