"""The hooks of rlcore-curriculum. rlcore imports this module at every start, so it must not import numpy."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rlcore import CurriculumSpec, hookimpl
from rlcore_curriculum.records import SamplerSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pluggy import PluginManager

    from rlcore import ParameterSource


@hookimpl
def rlcore_curricula() -> list[CurriculumSpec]:
    return [
        CurriculumSpec(
            name="lessons",
            target="rlcore_curriculum.lessons:Lessons",
            settings="rlcore_curriculum.lesson_settings:LessonsSettings",
            summary="ML-Agents' lessons: constants and samplers in consecutive stages",
        ),
    ]


@hookimpl
def rlcore_create_parameter_source() -> ParameterSource:
    made: ParameterSource = import_module("rlcore_curriculum.run_parameters.curricula").InstalledCurricula()
    return made


@hookimpl
def rlcore_status_printed(configuration: Mapping[str, Any], status: Mapping[str, Any]) -> None:
    import_module("rlcore_curriculum.status_table").print_parameters(configuration, status)


@hookimpl
def rlcore_addhooks(manager: PluginManager) -> None:
    from rlcore_curriculum import hookspecs

    manager.add_hookspecs(hookspecs)


@hookimpl
def rlcore_samplers() -> list[SamplerSpec]:
    return [
        _sampler("constant", "Constant", "always one value"),
        _sampler("uniform", "Uniform", "uniformly between two bounds"),
        _sampler("gaussian", "Gaussian", "a normal distribution"),
        _sampler("multirangeuniform", "MultiRangeUniform", "uniformly over several intervals"),
    ]


def _sampler(name: str, cls: str, summary: str) -> SamplerSpec:
    return SamplerSpec(
        name=name,
        target=f"rlcore_curriculum.samplers:{cls}Sampler",
        settings=f"rlcore_curriculum.sampler_settings:{cls}Parameters",
        summary=summary,
    )
