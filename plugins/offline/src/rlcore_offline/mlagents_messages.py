"""The messages of ML-Agents' demonstration files, as classes that protobuf makes when this module is imported.

Names and numbers of fields are those of ML-Agents 0.28 to 4.0 (its ``communicator_objects``). Fields that rlcore does
not read are left out: protobuf skips what it does not know. The classes are in a descriptor pool of their own, so an
installed ML-Agents does not collide with them.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto

# Of each message: its fields as (number, name, type, repeated), where a type that is text is another message.
_MESSAGES: dict[str, tuple[tuple[int, str, int | str, bool], ...]] = {
    "DemonstrationMeta": (
        (1, "api_version", _Field.TYPE_INT32, False),
        (2, "demonstration_name", _Field.TYPE_STRING, False),
        (3, "number_steps", _Field.TYPE_INT32, False),
        (4, "number_episodes", _Field.TYPE_INT32, False),
        (5, "mean_reward", _Field.TYPE_FLOAT, False),
    ),
    "ActionSpec": (
        (1, "num_continuous_actions", _Field.TYPE_INT32, False),
        (2, "num_discrete_actions", _Field.TYPE_INT32, False),
        (3, "discrete_branch_sizes", _Field.TYPE_INT32, True),
    ),
    "BrainParameters": (
        (3, "vector_action_size_deprecated", _Field.TYPE_INT32, True),
        (6, "vector_action_space_type_deprecated", _Field.TYPE_INT32, False),  # an enum: 1 is continuous
        (7, "brain_name", _Field.TYPE_STRING, False),
        (9, "action_spec", "ActionSpec", False),
    ),
    "FloatData": ((1, "data", _Field.TYPE_FLOAT, True),),
    "Observation": (
        (1, "shape", _Field.TYPE_INT32, True),
        (2, "compression_type", _Field.TYPE_INT32, False),  # an enum: 0 is none, 1 is PNG
        (3, "compressed_data", _Field.TYPE_BYTES, False),
        (4, "float_data", "FloatData", False),
        (5, "compressed_channel_mapping", _Field.TYPE_INT32, True),
        (6, "dimension_properties", _Field.TYPE_INT32, True),
        (7, "observation_type", _Field.TYPE_INT32, False),  # an enum: 1 is a goal
        (8, "name", _Field.TYPE_STRING, False),
    ),
    "AgentInfo": (
        (7, "reward", _Field.TYPE_FLOAT, False),
        (8, "done", _Field.TYPE_BOOL, False),
        (9, "max_step_reached", _Field.TYPE_BOOL, False),
        (10, "id", _Field.TYPE_INT32, False),
        (11, "action_mask", _Field.TYPE_BOOL, True),
        (13, "observations", "Observation", True),
    ),
    "AgentAction": (
        (1, "vector_actions_deprecated", _Field.TYPE_FLOAT, True),
        (6, "continuous_actions", _Field.TYPE_FLOAT, True),
        (7, "discrete_actions", _Field.TYPE_INT32, True),
    ),
    "AgentInfoActionPair": (
        (1, "agent_info", "AgentInfo", False),
        (2, "action_info", "AgentAction", False),
    ),
}

_PACKAGE = "communicator_objects"


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="mlagents_demonstration.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field, type_, repeated in fields:
            label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
            made = message.field.add(number=number, name=field, label=label)
            if isinstance(type_, str):
                made.type, made.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{type_}"
            else:
                made.type = type_
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES
    }


_CLASSES = _classes()

DemonstrationMeta: Any = _CLASSES["DemonstrationMeta"]
BrainParameters: Any = _CLASSES["BrainParameters"]
Observation: Any = _CLASSES["Observation"]
Pair: Any = _CLASSES["AgentInfoActionPair"]

# Values of ``dimension_properties``: of the channels of an image and the numbers of an entity; of the height and width
# of an image; of the number of entities.
NONE, EQUIVARIANT, VARIABLE = 1, 2, 4
GOAL = 1  # of ``observation_type``
