"""The adaptive curricula pass the conformance tests of curricula."""

from __future__ import annotations

import pytest

from rlcore_devkit import CurriculumConformance, PluginConformance

pytestmark = pytest.mark.smoke

RANGE = {"initial": 0.5, "limits": [0.0, 1.0], "step": 0.1, "lower_threshold": 0.0, "upper_threshold": 1.0}
WHOLE = {"initial": [2, 3], "limits": [1, 9], "step": 1, "lower_threshold": 0.0, "upper_threshold": 1.0}


class TestPlugin(PluginConformance):
    plugin = "rlcore-curriculum/adaptive-curricula"


class TestAdr(CurriculumConformance):
    curriculum = "rlcore-curriculum/adr"
    blocks = {
        "length": {**RANGE, "episodes": 3},
        "start": {**WHOLE, "episodes": 4, "integer": True, "behavior": "Agent"},
        "steps": {**RANGE, "episodes": 2, "measure": "length", "lower_threshold": 3.0, "upper_threshold": 5.0},
    }


class TestLearningProgress(CurriculumConformance):
    curriculum = "rlcore-curriculum/learning_progress"
    blocks = {
        "length": {"limits": [0.0, 1.0], "refresh": 3},
        "start": {"limits": [1, 9], "integer": True, "bins": 9, "window": 5, "refresh": 7},
    }


class TestPrioritizedLevels(CurriculumConformance):
    curriculum = "rlcore-curriculum/prioritized_levels"
    blocks = {
        "seed": {"levels": 20, "refresh": 3},
        "map": {"levels": 4, "first_level": 100, "score": "learnability", "success": 1.0, "refresh": 5},
    }
