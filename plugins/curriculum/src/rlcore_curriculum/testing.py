"""The rules of :class:`rlcore_curriculum.samplers.Sampler` as tests for authors of samplers to inherit.

::

    class TestMySampler(SamplerConformance):
        sampler = "acme-samplers/triangular"
        parameters = {"low": 1.0, "high": 3.0}
        low, high = 1.0, 3.0
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, ClassVar

import numpy as np

from rlcore import ConfigError, Plugins, load_plugins, selection_from
from rlcore_curriculum.arrays import Floats
from rlcore_curriculum.episode_values import EpisodeValues
from rlcore_curriculum.records import SamplerSpec
from rlcore_curriculum.sampler_settings import SamplerParameters, SamplerSettings
from rlcore_curriculum.samplers import Sampler, SeededSampler, make_sampler

__all__ = ["SamplerConformance"]

# The least and the greatest numbers of a generator, and others between them.
UNIFORMS: Floats = np.array([0.0, 2.0**-53, 1e-9, 0.25, 0.5, 0.5, 0.75, 1.0 - 1e-9, 1.0 - 2.0**-53])


class SamplerConformance:
    """Tests of samplers of environment parameters: set ``sampler`` and ``parameters``.

    Attributes:
        sampler: The sampler, NAME or DIST/NAME, as installed.
        parameters: Its ``sampler_parameters``.
        low: The least value that it may draw.
        high: The greatest value that it may draw.
    """

    sampler: ClassVar[str] = ""
    parameters: ClassVar[Mapping[str, Any]] = {}
    low: ClassVar[float] = -inf
    high: ClassVar[float] = inf

    def plugins(self) -> Plugins:
        """Return the plugins that the sampler is created with."""
        selection = selection_from(environ={}, used=(self.sampler,))
        return load_plugins(selection)

    def settings(self, **parameters: Any) -> SamplerSettings:
        """Return the block of an environment parameter; ``parameters`` override those of the class."""
        merged = {**self.parameters, **parameters}
        return SamplerSettings(sampler_type=self.sampler, sampler_parameters=merged)

    def make(self) -> Sampler:
        """Create the sampler as a curriculum does."""
        return self.seeded().sampler

    def seeded(self, **parameters: Any) -> SeededSampler:
        """Create the sampler with the checks and the seed that a curriculum gives it."""
        return make_sampler(self.settings(**parameters), self.plugins())

    # ------------------------------------------------------------ rules

    def test_its_record_has_a_summary_and_its_settings_a_seed(self) -> None:
        spec = self.plugins().record(SamplerSpec, self.sampler)
        assert spec.summary
        assert issubclass(spec.resolve("settings"), SamplerParameters), "derive the settings from SamplerParameters"
        assert self.seeded(seed=7).seed == 7

    def test_unknown_parameters_are_refused(self) -> None:
        assert list(self.settings().problems(self.plugins())) == []
        assert list(self.settings(no_such_key=1).problems(self.plugins())), "no_such_key was accepted"
        refusal = ""
        try:
            self.seeded(no_such_key=1)
        except ConfigError as error:
            refusal = str(error)
        assert "no_such_key" in refusal, "no_such_key was accepted"

    def test_each_number_gives_one_finite_value_within_the_bounds(self) -> None:
        sampler = self.make()
        for uniforms in (UNIFORMS[:0], UNIFORMS[:1], UNIFORMS):
            values = sampler.sample(uniforms.copy())
            assert values.shape == uniforms.shape
            assert values.dtype == np.float64
            assert np.isfinite(values).all(), f"{values} for {uniforms}"
            within = (values >= self.low) & (values <= self.high)
            assert within.all(), f"{values} lie outside {self.low} to {self.high}"

    def test_a_value_depends_on_its_number_alone(self) -> None:
        """Not on the other numbers, on earlier calls, or on the object; a resumed run then draws the same."""
        sampler = self.make()
        values = sampler.sample(UNIFORMS.copy())
        order = np.random.default_rng(1).permutation(len(UNIFORMS))
        in_order = sampler.sample(UNIFORMS[order])
        np.testing.assert_array_equal(in_order, values[order])
        alone = []
        for row in range(len(UNIFORMS)):
            (value,) = sampler.sample(UNIFORMS[row : row + 1].copy())
            alone.append(float(value))
        np.testing.assert_array_equal(alone, values)
        made_anew = self.make().sample(UNIFORMS.copy())
        np.testing.assert_array_equal(made_anew, values)

    def test_sampling_changes_neither_its_argument_nor_global_random_numbers(self) -> None:
        sampler = self.make()
        uniforms = UNIFORMS.copy()
        before = _global_state()
        sampler.sample(uniforms)
        np.testing.assert_array_equal(uniforms, UNIFORMS)
        assert _global_state() == before, "a sampler must not draw random numbers"

    def test_episodes_have_the_same_values_in_any_order(self) -> None:
        """The values of environments and episodes, drawn together, alone and by a run that is resumed."""
        env_index = np.array([0, 1, 2, 0, 1, 2, 0])
        episodes = np.array([0, 0, 0, 1, 1, 300, 2])
        drawn = EpisodeValues(5, ("gravity",), (self.seeded(),), 3)
        together = drawn(env_index, episodes)
        for row in reversed(range(len(episodes))):
            resumed = EpisodeValues(5, ("gravity",), (self.seeded(),), 3)
            alone = slice(row, row + 1)
            values = resumed(env_index[alone], episodes[alone])
            np.testing.assert_array_equal(values, together[alone])


def _global_state() -> tuple[object, ...]:
    """NumPy's global generator: its numbers, and how many of them are used up, since 624 draws share the numbers."""
    _, numbers, *used = np.random.get_state()  # noqa: NPY002
    return bytes(np.asarray(numbers)), *used
