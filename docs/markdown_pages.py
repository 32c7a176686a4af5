"""Writes the pages as Markdown beside their HTML, and llms.txt and llms-full.txt, for coding agents: a hook of MkDocs.

The page ``how-to/reward/`` of the site is ``how-to/reward.md`` too, so that links between Markdown pages work. It has
no HTML: figures are lists, and the API reference has signatures and docstrings. MkDocs calls this hook before
``generate.py``, which adds drawings.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import api_reference  # noqa: F401 - generate.py imports it later, when MkDocs has restored sys.path
import figures
import generate

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

LIST = "llms.txt"
EVERYTHING = "llms-full.txt"
LONGEST = 240  # letters of the line about a page
_DIRECTIVE = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
_AUTOREF = re.compile(r"\[(`[^`]+`)\]\[[\w.]+\]")
_COMMENT = re.compile(r"^<!-- [^>]* -->\n?", re.MULTILINE)
_BLOCKS = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\](?:\([^)]*\)|\[[^\]]*\])")
_SENTENCE = re.compile(r"(?<=[.?:])\s+(?=[A-Z`])")


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Write the Markdown of a page; the page itself stays as it is."""
    path = Path(config.site_dir) / page.file.src_uri
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(plain(markdown, page.file.src_uri), encoding="utf-8")
    return markdown


def on_post_build(config: MkDocsConfig) -> None:
    """Write the index of all pages, and all pages in one file, in the order of the navigation."""
    site = Path(config.site_dir)
    entries = list(navigation(config.nav or []))
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    lines.append(f"Each page is Markdown. {EVERYTHING} has all of them in one file.")
    for depth, title, path in entries:
        if path is None:
            lines += [*([""] if lines[-1] else []), f"{'#' * (depth + 2)} {title}", ""]
        else:
            text = (site / path).read_text(encoding="utf-8")
            lines.append(f"- [{title}]({path}): {first_sentence(text)}")
    (site / LIST).write_text("\n".join([*lines, ""]), encoding="utf-8")
    pages = [path for _, _, path in entries if path is not None]
    texts = [f"<!-- {path} -->\n\n{(site / path).read_text(encoding='utf-8').strip()}\n" for path in pages]
    (site / EVERYTHING).write_text("\n".join(texts), encoding="utf-8")


def navigation(nav: list[Any], depth: int = 0) -> Iterator[tuple[int, str, str | None]]:
    """Yield depth, title and path of each entry of the navigation; None is the path of a heading."""
    for entry in nav:
        for title, inner in entry.items():
            if isinstance(inner, str):
                yield depth, title, inner
            else:
                yield depth, title, None
                yield from navigation(inner, depth + 1)


def plain(markdown: str, path: str) -> str:
    """Return a page without links and comments that only the site can resolve, and with what it would draw as text."""
    if path == "how-to/zoo.md":
        markdown = generate.with_zoo(markdown)
    for comment, front in (("figures", False), ("front figures", True)):
        place = f"<!-- {comment} -->"
        if place in markdown:
            markdown = markdown.replace(place, "\n".join(measured(front)))
    markdown = _DIRECTIVE.sub(lambda match: "\n".join(documented(match[1])), markdown)
    markdown = _AUTOREF.sub(r"\1", markdown)
    return outside_of_blocks(_COMMENT, markdown)


def outside_of_blocks(pattern: re.Pattern[str], markdown: str) -> str:
    """Remove ``pattern`` from a page, but not from its blocks of code."""
    parts = [pattern.sub("", part) for part in _BLOCKS.split(markdown)]
    blocks = [*_BLOCKS.findall(markdown), ""]
    return "".join(part + block for part, block in zip(parts, blocks, strict=True))


def measured(front: bool) -> Iterator[str]:
    """Yield a line for each cited figure; with ``front``, only for those of the first page."""
    for each in figures.cited():
        if front and not each.front:
            continue
        line = f"- {each.shown} {each.front if front else each.what}"
        if each.against and not front:
            line += f", against {each.against}"
        if each.target is not None:
            line += f", target {figures.with_unit(each.target, each.unit)}, {'met' if each.met else 'missed'}"
        yield f"{line}. `{each.command}`, {each.machine}, {each.date}."


def documented(name: str) -> Iterator[str]:
    """Yield the signature and the docstring of a public name, and those of its public methods."""
    module, _, label = name.rpartition(".")
    found = getattr(importlib.import_module(module), label)
    yield from (f"## {name}", "", *_described(label, found))
    if inspect.isclass(found):
        for member, value in vars(found).items():
            function = getattr(value, "__func__", value)
            if member.startswith("_") or not (inspect.isfunction(function) or isinstance(value, property)):
                continue
            yield from ("", f"### {name}.{member}", "", *_described(member, function))


def _described(name: str, found: Any) -> Iterator[str]:
    signature = ""
    if callable(found):
        try:
            signature = _without_quotes(inspect.signature(found))
        except (TypeError, ValueError):  # an enum, or a class that C code has made
            signature = "(...)"
        yield from ("```python", f"{name}{signature}", "```", "")
    own = found.__doc__ if callable(found) or isinstance(found, property) else None
    yield generate.prose(own or "")


class _Type(str):
    """An annotation that a signature shows as it is written, without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def _without_quotes(signature: inspect.Signature) -> str:
    def shown(annotation: Any) -> Any:
        return _Type(annotation) if isinstance(annotation, str) else annotation

    parameters = [each.replace(annotation=shown(each.annotation)) for each in signature.parameters.values()]
    return str(signature.replace(parameters=parameters, return_annotation=shown(signature.return_annotation)))


def first_sentence(text: str) -> str:
    """Return the first sentence of a page: of the first paragraph that is neither a heading nor a block nor a table."""
    for paragraph in _BLOCKS.sub("", text).split("\n\n"):
        words = " ".join(_LINK.sub(r"\1", paragraph).split())
        if words and not words.startswith(("#", "|", "!", "<", "-", "1.")):
            sentence = _SENTENCE.split(words)[0]
            return sentence if len(sentence) <= LONGEST else f"{sentence[: LONGEST - 3]}..."
    return ""
