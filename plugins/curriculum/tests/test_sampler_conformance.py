"""The samplers of this package keep the rules of every one; a broken rule is noticed."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest

from rlcore import Plugins, RlcoreError, hookimpl
from rlcore_curriculum.records import SamplerSpec
from rlcore_curriculum.sampler_settings import SamplerParameters, UniformParameters
from rlcore_curriculum.samplers import UniformSampler
from rlcore_curriculum.testing import SamplerConformance

pytestmark = pytest.mark.smoke


class TestConstant(SamplerConformance):
    sampler = "rlcore-curriculum/constant"
    parameters = {"value": 3.0}
    low = high = 3.0


class TestUniform(SamplerConformance):
    sampler = "uniform"
    parameters = {"min_value": -1e308, "max_value": 1.7e308}
    low, high = -1e308, 1.7e308


class TestGaussian(SamplerConformance):
    sampler = "gaussian"
    parameters = {"mean": 2.0, "st_dev": 0.5}


class TestMultiRangeUniform(SamplerConformance):
    sampler = "multirangeuniform"
    parameters = {"intervals": [[0.0, 1.0], [4.0, 4.5]]}
    low, high = 0.0, 4.5


# ---------------------------------------------------------------- broken on purpose


@attrs.frozen(kw_only=True)
class NoSeed:
    """Settings that do not derive from SamplerParameters."""


class Registered(SamplerConformance):
    sampler = "acme"
    low, high = 0.0, 1.0

    def plugins(self) -> Plugins:
        class Acme:
            @hookimpl
            def rlcore_samplers(self) -> list[SamplerSpec]:
                return [SamplerSpec(name="acme", target="a:b", settings=f"{__name__}:NoSeed", summary="s")]

        plugins = super().plugins()
        plugins.register(Acme(), "acme")
        return plugins


class Broken(UniformSampler):
    def __init__(self) -> None:
        super().__init__(UniformParameters())


class Overshoots(Broken):
    def sample(self, uniforms: Any) -> Any:
        return super().sample(uniforms) + 0.1


class InfiniteAtZero(Broken):
    def sample(self, uniforms: Any) -> Any:
        with np.errstate(divide="ignore"):
            return np.clip(-np.log(uniforms), 0.0, np.inf)


class OneForAll(Broken):
    def sample(self, uniforms: Any) -> Any:
        return super().sample(uniforms)[:1]


class Whole(Broken):
    def sample(self, uniforms: Any) -> Any:
        return super().sample(uniforms).astype(np.int64)


class Ranks(Broken):
    def sample(self, uniforms: Any) -> Any:
        return uniforms.argsort().argsort() / len(uniforms)


class RemembersTheLast(Broken):
    last = 0.0

    def sample(self, uniforms: Any) -> Any:
        values = super().sample(uniforms) * 0.5 + self.last / 2
        self.last = float(values[-1]) if len(values) else self.last
        return values


class Scribbles(Broken):
    def sample(self, uniforms: Any) -> Any:
        values = super().sample(uniforms)
        uniforms[:] = 0.5
        return values


class Draws(Broken):
    def sample(self, uniforms: Any) -> Any:
        np.random.random()  # noqa: NPY002
        return super().sample(uniforms)


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (Overshoots, "test_each_number_gives_one_finite_value_within_the_bounds"),
        (InfiniteAtZero, "test_each_number_gives_one_finite_value_within_the_bounds"),
        (OneForAll, "test_each_number_gives_one_finite_value_within_the_bounds"),
        (Whole, "test_each_number_gives_one_finite_value_within_the_bounds"),
        (Ranks, "test_a_value_depends_on_its_number_alone"),
        (RemembersTheLast, "test_a_value_depends_on_its_number_alone"),
        (Scribbles, "test_sampling_changes_neither_its_argument_nor_global_random_numbers"),
        (Draws, "test_sampling_changes_neither_its_argument_nor_global_random_numbers"),
        (RemembersTheLast, "test_episodes_have_the_same_values_in_any_order"),
    ],
)
def test_a_broken_sampler_is_noticed(monkeypatch: pytest.MonkeyPatch, broken: type[Broken], rule: str) -> None:
    class Conformance(SamplerConformance):
        sampler = "uniform"
        low, high = 0.0, 1.0

    monkeypatch.setattr("rlcore_curriculum.samplers.UniformSampler", lambda settings: broken())
    np.random.random()  # noqa: NPY002  # the next draw from the global generator uses up a number that is there already
    with pytest.raises(AssertionError):
        getattr(Conformance(), rule)()


def test_settings_without_a_seed_are_noticed() -> None:
    with pytest.raises(AssertionError, match="SamplerParameters"):
        Registered().test_its_record_has_a_summary_and_its_settings_a_seed()


def test_settings_that_take_anything_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Conformance(SamplerConformance):
        sampler = "uniform"

    monkeypatch.setattr(
        "rlcore_curriculum.sampler_settings.read_settings", lambda cls, block: (SamplerParameters(), ())
    )
    with pytest.raises((AssertionError, RlcoreError), match="no_such_key was accepted"):
        Conformance().test_unknown_parameters_are_refused()
