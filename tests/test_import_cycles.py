"""No module of a member needs itself, also not by an import inside a function or one for type checkers alone."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest
from workspace import MEMBERS, Member


@pytest.mark.parametrize("member", MEMBERS, ids=str)
def test_there_is_no_circle_of_imports(member: Member) -> None:
    graph = grimp.build_graph(member.module, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]), pytrace=False)
