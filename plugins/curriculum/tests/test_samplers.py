"""Compare samplers with their distributions in closed form."""

from __future__ import annotations

from math import erf, sqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlcore import ConfigError, PluginError, Plugins, load_plugins
from rlcore_curriculum.episode_values import EpisodeValues
from rlcore_curriculum.sampler_settings import SamplerSettings
from rlcore_curriculum.samplers import Sampler, make_sampler

Array = NDArray[np.float64]

EVENLY: Array = (np.arange(200_000) + 0.5) / 200_000
LAST = 1 - 2.0**-53  # the largest number of a generator


def sampler(plugins: Plugins, kind: str, **parameters: Any) -> Sampler:
    made = make_sampler(SamplerSettings(sampler_type=kind, sampler_parameters=parameters), plugins)
    assert made.seed == parameters.get("seed", -1)
    return made.sampler


def greatest_distance(values: Array, cumulative: Any) -> float:
    """Return Kolmogorov's distance between the empirical and the true cumulative distribution function."""
    values = np.sort(values)
    true = np.array([cumulative(value) for value in values.tolist()])
    ranks = np.arange(len(values) + 1) / len(values)
    return float(max(np.abs(true - ranks[1:]).max(), np.abs(true - ranks[:-1]).max()))


def normal(mean: float, st_dev: float) -> Any:
    return lambda x: 0.5 * (1 + erf((x - mean) / (st_dev * sqrt(2))))


def over(*intervals: tuple[float, float]) -> Any:
    """Return the cumulative function of the uniform distribution over disjoint intervals."""
    total = sum(high - low for low, high in intervals)
    return lambda x: sum(min(max(x - low, 0.0), high - low) for low, high in intervals) / total


CASES: list[tuple[str, dict[str, Any], Any]] = [
    ("uniform", {}, over((0, 1))),
    ("gaussian", {}, normal(1, 1)),
    ("gaussian", {"mean": -2, "st_dev": 0.25}, normal(-2, 0.25)),
    ("multirangeuniform", {}, over((0, 1))),
    ("multirangeuniform", {"intervals": [[5, 8], [2, 2], [-4, 0], [9, 9]]}, over((5, 8), (-4, 0))),
]


@pytest.mark.parametrize(("kind", "parameters", "cumulative"), CASES)
def test_evenly_spaced_numbers_give_the_distribution(
    plugins: Plugins, kind: str, parameters: dict[str, Any], cumulative: Any
) -> None:
    numbers = EVENLY[::40]  # 5000 numbers: no random sample of the distribution comes as close
    values = sampler(plugins, kind, **parameters).sample(numbers)
    assert greatest_distance(values, cumulative) <= 1.001 / 5000


@pytest.mark.parametrize(
    ("kind", "parameters", "low", "high"),
    [
        ("uniform", {"min_value": -1.7e308, "max_value": 1.7e308}, -1.7e308, 1.7e308),
        ("uniform", {"min_value": 0.9, "max_value": 0.9}, 0.9, 0.9),
        ("multirangeuniform", {"intervals": [[-1.7e308, 1.7e308]]}, -1.7e308, 1.7e308),
        ("multirangeuniform", {"intervals": [[2, 2]]}, 2, 2),
        ("multirangeuniform", {"intervals": [*[[0, 0.1]] * 10, [7, 7]]}, 0, 0.1),  # shares add up to less than 1
    ],
)
def test_values_stay_within_their_bounds(
    plugins: Plugins, kind: str, parameters: dict[str, Any], low: float, high: float
) -> None:
    values = sampler(plugins, kind, **parameters).sample(np.array([0.0, *EVENLY[::100], LAST]))
    assert low == values.min() and values.max() <= high
    assert values.max() == pytest.approx(high)


def test_a_normal_distribution_has_its_tails(plugins: Plugins) -> None:
    made = sampler(plugins, "gaussian", mean=0, st_dev=1)
    numbers = np.array([0.5, 0.975, 0.025, 1e-9, 1e-15])
    known = [0.0, 1.959963984540054, -1.959963984540054, -5.997807015007687, -7.941345326170998]
    np.testing.assert_allclose(made.sample(numbers), known, rtol=1e-9, atol=1e-12)
    ends = made.sample(np.array([0.0, LAST]))
    assert ends[0] < -8 and ends[1] > 8 and np.isfinite(ends).all()
    assert set(sampler(plugins, "gaussian", mean=3, st_dev=0).sample(EVENLY[:100]).tolist()) == {3.0}


# ---------------------------------------------------------------- samplers of other plugins

SHAPES = """
import attrs
import numpy as np
from rlcore import hookimpl, setting
from rlcore_curriculum.records import SamplerSpec
from rlcore_curriculum.sampler_settings import SamplerParameters

FUNCTIONS = {
    "triangular": lambda uniforms, top: top * np.sqrt(uniforms),
    "short": lambda uniforms, top: uniforms[:1],
    "infinite": lambda uniforms, top: 1 / (uniforms - uniforms[-1]),
}

@attrs.frozen(kw_only=True)
class Parameters(SamplerParameters):
    top: float = setting(1.0, "The greatest value, and the most likely one.", exclusive_minimum=0)

@hookimpl
def rlcore_samplers():
    target = __name__ + ":"
    return [
        SamplerSpec(name=name, target=target + name.title(), settings=target + "Parameters")
        for name in FUNCTIONS
    ]

class Shape:
    def __init__(self, settings):
        self.top = settings.top

for name, function in FUNCTIONS.items():
    members = {"sample": lambda self, uniforms, function=function: function(uniforms, self.top)}
    globals()[name.title()] = type(name.title(), (Shape,), members)
"""


@pytest.fixture
def shapes(installed_plugin: Any) -> Plugins:
    installed_plugin("shapes", "acme-shapes", "1", SHAPES)
    loaded = load_plugins()
    assert loaded.warnings == ()
    return loaded


def test_another_plugin_may_bring_a_sampler(shapes: Plugins) -> None:
    for name in ("triangular", "acme-shapes/triangular"):
        made = sampler(shapes, name, top=4, seed=3)
        assert made.sample(np.array([0.0, 0.25, 1.0])).tolist() == [0.0, 2.0, 4.0]


def test_mistakes_of_another_plugins_sampler_are_reported_like_built_in_ones(shapes: Plugins) -> None:
    wrong = SamplerSettings(sampler_type="triangular", sampler_parameters={"top": -1, "tpo": 2})
    assert list(wrong.problems(shapes)) == [
        (("sampler_parameters", "tpo"), "unknown key; did you mean 'top'? (allowed: seed, top)"),
        (("sampler_parameters", "top"), "must be greater than 0, not -1"),
    ]
    with pytest.raises(ConfigError, match=r"sampler 'triangular': tpo: unknown key"):
        make_sampler(wrong, shapes)
    ((path, message),) = SamplerSettings(sampler_type="triangula").problems(shapes)
    assert path == ("sampler_type",) and message.endswith("; did you mean 'triangular'?")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("short", " gave 'length' an array of shape (1,) for 1024 random numbers; one value for each is wanted"),
        ("infinite", " gave 'length' inf for 0."),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_one_that_fails_is_named_with_its_plugin_and_the_parameter(shapes: Plugins, name: str, told: str) -> None:
    made = make_sampler(SamplerSettings(sampler_type=name), shapes)
    with pytest.raises(PluginError) as caught:
        EpisodeValues(1, ["length"], [made], num_envs=4)(np.arange(4), np.zeros(4, np.int64))
    assert str(caught.value).startswith(f"sampler {name!r} of plugin 'shapes' (acme-shapes 1)")
    assert told in str(caught.value)
