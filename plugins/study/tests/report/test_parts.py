"""Plugins add parts to the page, and say which runs a path stands for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rlcore_devkit import RunRlcore
from rlcore_devkit.fixtures import InstallPlugin, installed_plugin

__all__ = ["installed_plugin"]

HOOKS = """
from rlcore import hookimpl
from rlcore_study.parts import Figure, Part, ReportPartSpec

@hookimpl(optionalhook=True)
def rlcore_report_parts():
    return [ReportPartSpec(name="acme", target="acme_hooks:parts", expand="acme_hooks:runs_of", summary="Acme's part.")]

def runs_of(path):
    return sorted(path.glob("of-acme-*")) if path.name == "results" else None

def parts(runs):
    bars = {"type": "bar", "x": [run.name for run in runs], "y": [1 for run in runs], "marker": {"color": "--g0"}}
    rows = [(run.name, "<b>bold</b>") for run in runs]
    return [Part("Acme & more", "Counts.", [Figure("Count", [bars], caption="All.")], ("Run", "Word"), rows)]
"""


def test_a_plugin_adds_a_part_and_names_the_runs_of_a_path(
    write_run: Any, run_rlcore: RunRlcore, installed_plugin: InstallPlugin
) -> None:
    write_run("of-acme-1")
    write_run("of-acme-2", 2)
    write_run("other", lr=1)
    installed_plugin("acme", "acme-parts", "1.0", HOOKS, module="acme_hooks")
    done = run_rlcore("report", "../working/results", "other")
    assert done.exit_code == 0 and "report of 3 runs" in done.stdout, done.stderr
    text = Path("report.html").read_text("utf-8")
    assert '<h2 id="part-1">Acme &amp; more</h2>' in text and "<title>Acme &amp; more</title>" in text
    assert "&lt;b&gt;bold&lt;/b&gt;" in text and "<b>bold</b>" not in text
    start = text.index('id="data">') + len('id="data">')
    (figure,) = json.loads(text[start : text.index("</script>", start)])["figures"]
    assert figure["id"] == "figure-1" and 'id="figure-1"' in text
    assert figure["traces"][0]["x"] == ["of-acme-1", "of-acme-2", "other"]
