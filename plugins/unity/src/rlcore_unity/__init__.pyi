from .channels import SideChannel as SideChannel
from .environment import UnityEnvironment as UnityEnvironment
from .hookspecs import SideChannelSpec as SideChannelSpec
from .hookspecs import rlcore_unity_side_channels as rlcore_unity_side_channels
from .settings import UnitySettings as UnitySettings
