"""The specification file is the reference documentation, so it is tested like code."""

from __future__ import annotations

import inspect
import re

import pytest

from rlcore import hookimpl, hookspecs
from rlcore.hookspecs import HOOKS, HookInfo
from rlcore.plugins.call import Plugins
from rlcore.plugins.manager import HookManager

pytestmark = pytest.mark.smoke

SPECIFIED = {name: value for name, value in vars(hookspecs).items() if name.startswith("rlcore_")}


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.name)
def test_every_hook_says_what_it_is_for_and_when_it_is_called(hook: HookInfo) -> None:
    documentation = inspect.getdoc(SPECIFIED[hook.name]) or ""
    summary, _, rest = documentation.partition("\n\n")
    assert summary.endswith(".")
    assert "Called once" in rest


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.name)
def test_specifications_are_annotated_and_have_no_defaults(hook: HookInfo) -> None:
    signature = inspect.signature(SPECIFIED[hook.name])
    assert signature.return_annotation is not signature.empty
    for parameter in signature.parameters.values():
        assert parameter.annotation is not parameter.empty
        assert parameter.default is parameter.empty


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.name)
def test_the_grammar_of_a_name_tells_its_kind(hook: HookInfo) -> None:
    options = HookManager().parse_hookspec_opts(hookspecs, hook.name)
    assert options is not None
    assert bool(dict(options).get("firstresult")) == (hook.kind == "factory")
    grammar = {
        "factory": r"rlcore_(create|write|read)_\w+",
        "registry": r"rlcore_\w+(s|a)",
        "notification": r"rlcore_\w*(ed|written)",
        "status": r"rlcore_(report|restore)_status",
        "intervention": r"rlcore_(modify|check|process)_\w+",
        "extension": r"rlcore_addhooks",
    }
    assert re.fullmatch(grammar[hook.kind], hook.name)


def test_a_plugin_that_implements_every_hook_as_specified_registers(plugins: Plugins) -> None:
    class Everything:
        """Implements every hook with every argument, as the specification names them."""

    for name, function in SPECIFIED.items():
        arguments = ", ".join(inspect.signature(function).parameters)
        scope: dict[str, object] = {}
        exec(f"def {name}({', '.join(filter(None, ['self', arguments]))}): return None", scope)
        setattr(Everything, name, hookimpl(scope[name]))  # type: ignore[call-overload]
    plugins.register(Everything(), "everything")
    assert set(plugins.implemented("module:everything")) == set(SPECIFIED)
