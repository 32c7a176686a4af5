"""The messages of ML-Agents 0.28 to 4.0, as classes that protobuf makes when this module is imported.

Names and numbers of fields are those of ML-Agents' public protocol (package ``communicator_objects``); the classes have
its names without the ending ``Proto``. They are in a descriptor pool of their own, so an installed ML-Agents does not
collide with them. Protobuf skips fields that are not listed here.

A session is a sequence of unary gRPC calls of :data:`EXCHANGE`. Unity is the client, Python the server, and both send a
:class:`UnityMessage`:

1. Unity sends ``unity_output.rl_initialization_output``, Python answers ``unity_input.rl_initialization_input``.
2. Unity sends a message with a header only, Python answers ``unity_input.rl_input`` with ``Command.RESET``.
3. For each decision, Unity sends ``unity_output.rl_output``, and Python answers ``unity_input.rl_input`` with actions.
   Behaviors are described in ``rl_initialization_output.brain_parameters`` of the message with their first agents.

A header with a status other than 200 ends the session.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

EXCHANGE = "/communicator_objects.UnityToExternalProto/Exchange"
"""The method of gRPC, unary: a UnityMessage is answered by a UnityMessage."""


class Command(IntEnum):
    """Values of ``RLInput.command``: what Unity does next."""

    STEP = 0
    RESET = 1
    QUIT = 2


class Compression(IntEnum):
    """Values of ``Observation.compression_type``."""

    NONE = 0
    PNG = 1


class ObservationType(IntEnum):
    """Values of ``Observation.observation_type``."""

    DEFAULT = 0
    GOAL_SIGNAL = 1


# Values of ``Observation.dimension_properties``.
NONE = 1  # of channels of an image, and of the numbers of an entity
EQUIVARIANT = 2  # of height and width of an image
VARIABLE = 4  # of the number of entities, of which Unity sends all, those that are absent as zeros

_Field = descriptor_pb2.FieldDescriptorProto
_BOOL = _Field.TYPE_BOOL
_BYTES = _Field.TYPE_BYTES
_FLOAT = _Field.TYPE_FLOAT
_INT = _Field.TYPE_INT32
_TEXT = _Field.TYPE_STRING

# Fields of each message: number, name, type. A type that is text is another message, ``*`` marks a repeated field, and
# ``map`` one from text to a message. Enumerations are whole numbers, which is how protobuf writes them.
_MESSAGES: dict[str, tuple[tuple[int, str, int | str], ...]] = {
    # ------------------------------------------------------------ demonstrations
    "DemonstrationMeta": (
        (1, "api_version", _INT),
        (2, "demonstration_name", _TEXT),
        (3, "number_steps", _INT),
        (4, "number_episodes", _INT),
        (5, "mean_reward", _FLOAT),  # of an episode
    ),
    "AgentInfoActionPair": (
        (1, "agent_info", "AgentInfo"),
        (2, "action_info", "AgentAction"),
    ),
    # ------------------------------------------------------------ behaviors
    "ActionSpec": (
        (1, "num_continuous_actions", _INT),
        (2, "num_discrete_actions", _INT),  # branches
        (3, "*discrete_branch_sizes", _INT),  # options of each branch
        (4, "*action_descriptions", _TEXT),
    ),
    "BrainParameters": (
        (3, "*vector_action_size_deprecated", _INT),
        (6, "vector_action_space_type_deprecated", _INT),  # 1 is continuous
        (7, "brain_name", _TEXT),  # Name?team=0
        (8, "is_training", _BOOL),  # the agents ask Python for their actions
        (9, "action_spec", "ActionSpec"),
    ),
    # ------------------------------------------------------------ agents
    "FloatData": ((1, "*data", _FLOAT),),
    "Observation": (
        (1, "*shape", _INT),  # images: height, width, channels until package 2.x; channels, height, width since 3.0
        (2, "compression_type", _INT),  # Compression
        (3, "compressed_data", _BYTES),  # PNG files one after another, each of three channels
        (4, "float_data", "FloatData"),
        (5, "*compressed_channel_mapping", _INT),  # for each channel of the PNG files that of the observation, or -1
        (6, "*dimension_properties", _INT),  # NONE, EQUIVARIANT or VARIABLE for each dimension
        (7, "observation_type", _INT),  # ObservationType
        (8, "name", _TEXT),
    ),
    "AgentInfo": (
        (7, "reward", _FLOAT),  # since the agent's last decision
        (8, "done", _BOOL),  # the observations are the last of the episode
        (9, "max_step_reached", _BOOL),  # the episode was cut off
        (10, "id", _INT),  # another one in each episode
        (11, "*action_mask", _BOOL),  # true: the option is forbidden; all branches one after another, or nothing
        (13, "*observations", "Observation"),
        (14, "group_id", _INT),  # 0: no group
        (15, "group_reward", _FLOAT),
    ),
    "AgentAction": (
        (1, "*vector_actions_deprecated", _FLOAT),
        (4, "value", _FLOAT),  # not used
        (6, "*continuous_actions", _FLOAT),  # within [-1, 1]
        (7, "*discrete_actions", _INT),  # the option of each branch
    ),
    # ------------------------------------------------------------ the exchange
    "ListAgentInfo": ((1, "*value", "AgentInfo"),),
    "ListAgentAction": ((1, "*value", "AgentAction"),),
    "Header": (
        (1, "status", _INT),  # 200, or 400 when the session ends
        (2, "message", _TEXT),
    ),
    "Capabilities": (
        (1, "baseRLCapabilities", _BOOL),
        (2, "concatenatedPngObservations", _BOOL),
        (3, "compressedChannelMapping", _BOOL),
        (4, "hybridActions", _BOOL),
        (5, "trainingAnalytics", _BOOL),
        (6, "variableLengthObservation", _BOOL),
        (7, "multiAgentGroups", _BOOL),
    ),
    "InitializationOutput": (
        (1, "name", _TEXT),  # of the player
        (2, "communication_version", _TEXT),  # 1.5.0 since 2021
        (3, "log_path", _TEXT),
        (5, "*brain_parameters", "BrainParameters"),
        (7, "package_version", _TEXT),  # of com.unity.ml-agents
        (8, "capabilities", "Capabilities"),
    ),
    "InitializationInput": (
        (1, "seed", _INT),
        (2, "communication_version", _TEXT),
        (3, "package_version", _TEXT),  # of mlagents_envs; packages 1.x stop at one above 0.25
        (4, "capabilities", "Capabilities"),
        (5, "num_areas", _INT),  # copies of the training area in the scene
    ),
    "RLOutput": (
        (2, "map agentInfos", "ListAgentInfo"),  # by behavior
        (3, "side_channel", _BYTES),
    ),
    "RLInput": (
        (1, "map agent_actions", "ListAgentAction"),  # by behavior; in the order of its agents that are not done
        (4, "command", _INT),  # Command
        (5, "side_channel", _BYTES),
    ),
    "UnityOutput": (
        (1, "rl_output", "RLOutput"),
        (2, "rl_initialization_output", "InitializationOutput"),
    ),
    "UnityInput": (
        (1, "rl_input", "RLInput"),
        (2, "rl_initialization_input", "InitializationInput"),
    ),
    "UnityMessage": (
        (1, "header", "Header"),
        (2, "unity_output", "UnityOutput"),
        (3, "unity_input", "UnityInput"),
    ),
}

_PACKAGE = "communicator_objects"


def _add_field(message: Any, number: int, name: str, kind: int | str) -> None:
    field = message.field.add(number=number, name=name.removeprefix("*").removeprefix("map "))
    field.label = _Field.LABEL_REPEATED if name.startswith(("*", "map ")) else _Field.LABEL_OPTIONAL
    if name.startswith("map "):
        entry = "".join(part[0].upper() + part[1:] for part in field.name.split("_")) + "Entry"
        nested = message.nested_type.add(name=entry)
        nested.options.map_entry = True
        _add_field(nested, 1, "key", _TEXT)
        _add_field(nested, 2, "value", kind)
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{message.name}.{entry}"
    elif isinstance(kind, str):
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{kind}"
    else:
        field.type = kind


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="rlcore_mlagents.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field, kind in fields:
            _add_field(message, number, field, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES
    }


_CLASSES = _classes()

DemonstrationMeta: Any = _CLASSES["DemonstrationMeta"]
AgentInfoActionPair: Any = _CLASSES["AgentInfoActionPair"]
ActionSpec: Any = _CLASSES["ActionSpec"]
BrainParameters: Any = _CLASSES["BrainParameters"]
FloatData: Any = _CLASSES["FloatData"]
Observation: Any = _CLASSES["Observation"]
AgentInfo: Any = _CLASSES["AgentInfo"]
AgentAction: Any = _CLASSES["AgentAction"]
ListAgentInfo: Any = _CLASSES["ListAgentInfo"]
ListAgentAction: Any = _CLASSES["ListAgentAction"]
Header: Any = _CLASSES["Header"]
Capabilities: Any = _CLASSES["Capabilities"]
InitializationOutput: Any = _CLASSES["InitializationOutput"]
InitializationInput: Any = _CLASSES["InitializationInput"]
RLOutput: Any = _CLASSES["RLOutput"]
RLInput: Any = _CLASSES["RLInput"]
UnityOutput: Any = _CLASSES["UnityOutput"]
UnityInput: Any = _CLASSES["UnityInput"]
UnityMessage: Any = _CLASSES["UnityMessage"]
