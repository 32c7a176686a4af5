"""The list of plugins is made from metadata alone: what is found, what is left out, and text of strangers."""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Iterator, Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import plugin_list
import pytest
from plugin_list import KEYWORD
from release import bounds
from workspace import PLUGINS, Member

pytestmark = pytest.mark.documentation

METADATA = """\
Metadata-Version: 2.4
Name: {name}
Version: {version}
Summary: {summary}
Keywords: {keywords}
Project-URL: Source, {url}
Requires-Dist: attrs>=23
Requires-Dist: rlcore[torch]<0.2,>=0.1
Requires-Dist: rlcore-gymnasium; extra == "test"
"""
HOOKS = """\
raise SystemExit("a list imports nothing")

@hookimpl
def rlcore_trainers(): ...

@rlcore.hookimpl(tryfirst=True)
def rlcore_run_started(run): ...

@hookimpl
def rlcore_samplers(): ...

def rlcore_environments(): ...
"""


def metadata(**changes: str) -> str:
    given = {
        "name": "acme-rl",
        "version": "1.2",
        "summary": "Walks",
        "keywords": KEYWORD,
        "url": "https://acme.example/",
    }
    return METADATA.format(**{**given, **changes})


def wheel(directory: Path, files: Mapping[str, str] | None = None, **changes: str) -> Path:
    """Write a wheel with a module ``acme_rl/plugin.py``; ``files`` replaces its files."""
    name = changes.get("name", "acme-rl")
    version = changes.get("version", "1.2")
    path = directory / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    information = path.name.removesuffix("-py3-none-any.whl") + ".dist-info"
    content = {
        "acme_rl/plugin.py": HOOKS,
        f"{information}/METADATA": metadata(**changes),
        f"{information}/entry_points.txt": "[rlcore]\nacme = acme_rl.plugin\n",
    }
    directory.mkdir(exist_ok=True, parents=True)
    with zipfile.ZipFile(path, "w") as archive:
        for each, text in (files if files is not None else content).items():
            archive.writestr(each, text)
    return path


def listed(*arguments: str | Path) -> int:
    return plugin_list.main([str(each) for each in arguments])


# ---------------------------------------------------------------- the members


@pytest.mark.parametrize("member", PLUGINS, ids=str)
def test_every_member_can_be_found(member: Member) -> None:
    row = plugin_list.from_project(member.directory)
    assert KEYWORD in row.keywords
    assert (row.name, row.version, row.bounds) == (
        member.name,
        member.project["version"],
        bounds(member.project["version"]),
    )


# ---------------------------------------------------------------- wheels


def test_the_newest_wheel_of_a_directory_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for version in ("1.9", "1.10", "1.2"):
        wheel(tmp_path, version=version)
    assert listed(tmp_path) == 0
    rows = capsys.readouterr().out.splitlines()[2:]
    link = "[source](https://acme.example/)"
    assert rows == [f"| `acme-rl` | 1.10 | Walks | hooks, samplers, trainers | `>=0.1,<0.2` | {link} |"]


def test_what_is_no_plugin_is_left_out_with_a_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel(tmp_path, name="acme-quiet", keywords="reinforcement,learning")
    wheel(tmp_path, {"acme_none-1.2.dist-info/METADATA": metadata(name="acme-none")}, name="acme-none")
    wheel(tmp_path, {}, name="acme-empty")
    (tmp_path / "acme_broken-1.2-py3-none-any.whl").write_bytes(b"PK nothing")
    assert listed(tmp_path) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 2
    for name, reason in (
        ("acme_quiet", "its keywords lack rlcore-plugin"),
        ("acme_none", "it has no entry point in the group 'rlcore'"),
        ("acme_empty", "it is not a wheel"),
        ("acme_broken", "it is not a wheel"),
    ):
        assert f"{name}-1.2-py3-none-any.whl: left out: {reason}" in printed.err


def test_text_of_strangers_cannot_change_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = "a | b <script>x</script> [c](javascript:d) `e` \x1b[31m"
    wheel(tmp_path, summary=evil, url="javascript:alert(1)")
    assert listed(tmp_path) == 0
    (row,) = capsys.readouterr().out.splitlines()[2:]
    assert "<script>" not in row and "](javascript" not in row and "\x1b" not in row
    assert row.replace("\\|", "").count("|") == 7
    assert "javascript:alert" not in row


# ---------------------------------------------------------------- an index


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        """Print nothing."""


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """The address of a simple index with the files below ``tmp_path/simple``."""
    (tmp_path / "simple").mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/simple"
    server.shutdown()
    server.server_close()
    thread.join()


def project_page(tmp_path: Path, name: str, *links: str) -> Path:
    directory = tmp_path / "simple" / name
    directory.mkdir()
    (directory / "index.html").write_text("<html><body>" + "".join(links) + "</body></html>")
    return directory


def test_only_the_metadata_of_an_index_is_read_if_it_is_offered(
    tmp_path: Path, index: str, capsys: pytest.CaptureFixture[str]
) -> None:
    newer = "acme_rl-1.3-py3-none-any.whl"
    older = "acme_rl-1.2-py3-none-any.whl"
    yanked = '<a href="acme_rl-9.0-py3-none-any.whl" data-yanked="broken">x</a>'
    offered = f'<a href="{newer}#sha256=0" data-core-metadata="sha256=0">x</a>'
    directory = project_page(
        tmp_path, "acme-rl", f'<a href="{older}">x</a>', '<a href="a.tar.gz">x</a>', offered, yanked
    )
    (directory / f"{newer}.metadata").write_text(metadata(version="1.3"))  # there is no wheel
    assert listed(index, "Acme_RL") == 0
    (row,) = capsys.readouterr().out.splitlines()[2:]
    assert row.startswith("| `acme-rl` | 1.3 | Walks |  | `>=0.1,<0.2` |")


def test_an_address_that_cannot_be_read_is_one_line(
    tmp_path: Path, index: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for address, words in ((f"{index}/", ["missing"]), (f"file://{tmp_path}", []), (str(tmp_path / "none"), [])):
        assert listed(address, *words) == 1
        printed = capsys.readouterr()
        assert printed.out == "" and len(printed.err.splitlines()) == 1


OTHERS = """\
- {package: acme-rl>=1.2, about: "Walks | runs"}
- {package: "acme-lake @ git+https://acme.example/lake.git@main", about: Swims}
"""


def test_packages_from_elsewhere_that_are_tried_each_night_are_listed(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / plugin_list.TRIED).write_text(OTHERS)
    assert plugin_list.tried(tmp_path).splitlines()[2:] == [
        "| `acme-rl` | Walks \\| runs |  | `acme-rl>=1.2` |",
        "| `acme-lake` | Swims |  | <https://acme.example/lake.git@main> |",
    ]
