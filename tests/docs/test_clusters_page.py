"""The page "Slurm and Kubernetes": its objects have fields of the API, and its exit codes are those of rlcore.

``tests/test_slurm_scripts.py`` runs the scripts for Slurm.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from pages import BLOCKS

from rlcore import CheckpointSettings
from rlcore_workers.ray.ranks import SAME_AGAIN

pytestmark = pytest.mark.documentation

CLUSTERS = "docs/how-to/clusters.md"
OBJECTS = {
    block.title: yaml.safe_load(block.text)
    for block in BLOCKS
    if block.page == CLUSTERS and block.language == "yml" and "apiVersion" in block.text
}
SCRIPTS = {block.title: block.text for block in BLOCKS if block.page == CLUSTERS and block.language == "bash"}
# Types of the API of Kubernetes 1.37 and of JobSet v1alpha2 with the fields that the page uses, and their types.
TYPES: Mapping[str, Mapping[str, str]] = {
    "Job": {"apiVersion": "", "kind": "", "metadata": "ObjectMeta", "spec": "JobSpec"},
    "JobSet": {"apiVersion": "", "kind": "", "metadata": "ObjectMeta", "spec": "JobSetSpec"},
    "ObjectMeta": {"name": ""},
    "JobSetSpec": {"failurePolicy": "FailurePolicy", "replicatedJobs": "ReplicatedJob"},
    "FailurePolicy": {"maxRestarts": "", "rules": "FailurePolicyRule"},
    "FailurePolicyRule": {"action": "", "onJobFailureReasons": "", "targetReplicatedJobs": ""},
    "ReplicatedJob": {"name": "", "replicas": "", "template": "JobTemplateSpec"},
    "JobTemplateSpec": {"metadata": "ObjectMeta", "spec": "JobSpec"},
    "JobSpec": {
        "backoffLimit": "",
        "completions": "",
        "parallelism": "",
        "podFailurePolicy": "PodFailurePolicy",
        "podReplacementPolicy": "",
        "template": "PodTemplateSpec",
    },
    "PodFailurePolicy": {"rules": "PodFailurePolicyRule"},
    "PodFailurePolicyRule": {"action": "", "onExitCodes": "OnExitCodes", "onPodConditions": "OnPodConditions"},
    "OnExitCodes": {"containerName": "", "operator": "", "values": ""},
    "OnPodConditions": {"status": "", "type": ""},
    "PodTemplateSpec": {"metadata": "ObjectMeta", "spec": "PodSpec"},
    "PodSpec": {
        "containers": "Container",
        "restartPolicy": "",
        "terminationGracePeriodSeconds": "",
        "volumes": "Volume",
    },
    "Container": {"args": "", "command": "", "env": "", "image": "", "name": "", "volumeMounts": "VolumeMount"},
    "VolumeMount": {"mountPath": "", "name": ""},
    "Volume": {"name": "", "persistentVolumeClaim": "PersistentVolumeClaim"},
    "PersistentVolumeClaim": {"claimName": "", "readOnly": ""},
}


def unknown_fields(value: Any, kind: str, path: str) -> Iterator[str]:
    """Fields that ``kind`` does not have, by their path; a list has values of the kind."""
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from unknown_fields(each, kind, f"{path}[{number}]")
    elif kind:
        for name, each in value.items():
            if name in TYPES[kind]:
                yield from unknown_fields(each, TYPES[kind][name], f"{path}.{name}")
            else:
                yield f"{path}.{name}"


def job_specs(value: Any) -> Iterator[dict[str, Any]]:
    """The specifications of all Jobs in an object."""
    if value["kind"] == "Job":
        yield value["spec"]
    else:
        for job in value["spec"]["replicatedJobs"]:
            yield job["template"]["spec"]


def test_the_page_has_a_job_and_a_jobset() -> None:
    assert {title: value["kind"] for title, value in OBJECTS.items()} == {"job.yaml": "Job", "jobset.yaml": "JobSet"}


@pytest.mark.parametrize("title", OBJECTS)
def test_an_object_has_fields_of_the_api(title: str) -> None:
    value = OBJECTS[title]
    assert not [*unknown_fields(value, value["kind"], title)]
    assert [*unknown_fields({**value, "specs": {}}, value["kind"], title)] == [f"{title}.specs"]


@pytest.mark.parametrize("title", OBJECTS)
def test_kubernetes_starts_a_run_again_but_for_codes_with_which_it_would_end_again(title: str) -> None:
    for spec in job_specs(OBJECTS[title]):
        rules = spec["podFailurePolicy"]["rules"]
        assert [rule["onExitCodes"] for rule in rules if rule["action"] == "FailJob"] == [
            {"operator": "In", "values": sorted(map(int, SAME_AGAIN))}
        ]
        assert spec["template"]["spec"]["restartPolicy"] == "Never"  # a podFailurePolicy needs it


def test_the_first_pod_of_the_jobset_is_where_all_meet() -> None:
    jobset = OBJECTS["jobset.yaml"]
    name = jobset["metadata"]["name"]
    (job,) = jobset["spec"]["replicatedJobs"]
    spec = job["template"]["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    words = [*container["command"], *container["args"]]
    assert f"--rdzv-endpoint={name}-{job['name']}-0-0.{name}:29400" in words
    assert spec["completions"] == spec["parallelism"] == int(words[words.index("--nnodes") + 1])


def test_slurm_requeues_after_every_signal_after_which_a_run_has_saved() -> None:
    numbers = [signal.SIGHUP, signal.SIGINT, signal.SIGTERM]
    numbers += [signal.Signals[name] for name in CheckpointSettings().stop_signals]
    saved = sorted(128 + number for number in numbers)
    assert len(SCRIPTS) == 4
    for text in SCRIPTS.values():
        (codes,) = re.findall(r"^ *([\d |]+)\) scontrol requeue", text, re.MULTILINE)
        assert [*map(int, codes.split(" | "))] == saved
