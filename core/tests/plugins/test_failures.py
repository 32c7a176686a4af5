"""Foreign errors get an owner, rlcore's own and Ctrl-C pass, in a block and in a loop alike."""

from __future__ import annotations

import pytest

from rlcore.errors import ConfigError, EnvironmentFailed, PluginError
from rlcore.plugins.failures import Kind, blame, blamed, failure


def by_block(error: BaseException, kind: Kind = PluginError) -> None:
    with blamed("trainer 'x'", "in act", kind):
        raise error


def by_hand(error: BaseException, kind: Kind = PluginError) -> None:
    try:
        raise error
    except BaseException as caught:
        blame("trainer 'x'", "in act", caught, kind)


WAYS = pytest.mark.parametrize("way", [by_block, by_hand])


@WAYS
@pytest.mark.parametrize("kind", [PluginError, EnvironmentFailed])
def test_a_foreign_error_becomes_one_of_the_kind_with_the_original_as_its_cause(way, kind) -> None:
    original = ValueError("no\nluck")
    with pytest.raises(kind) as caught:
        way(original, kind)
    assert type(caught.value) is kind
    assert str(caught.value) == "trainer 'x' failed in act: ValueError: no luck"
    assert caught.value.__cause__ is original


@WAYS
def test_a_call_of_sys_exit_is_an_error_like_any_other(way) -> None:
    with pytest.raises(PluginError, match="failed in act: SystemExit: 3; raise an exception instead of calling"):
        way(SystemExit(3))
    with pytest.raises(PluginError, match="failed in act: GeneratorExit"):
        way(GeneratorExit())


@WAYS
@pytest.mark.parametrize("error", [ConfigError("mine"), KeyboardInterrupt()])
def test_errors_raised_on_purpose_and_ctrl_c_pass_unchanged(way, error) -> None:
    with pytest.raises(BaseException) as caught:  # noqa: PT011  # KeyboardInterrupt is not an Exception
        way(error)
    assert caught.value is error
    assert error.__cause__ is None


def test_failure_names_the_owner_also_of_an_error_raised_on_purpose() -> None:
    original = ConfigError("give a path")
    made = failure("writer 'x'", "at step 5", original)
    assert isinstance(made, PluginError)
    assert str(made) == "writer 'x' failed at step 5: give a path"
    assert made.__cause__ is original
