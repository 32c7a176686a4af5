from .formats import RecordingFormat as RecordingFormat
from .formats import RecordingWriter as RecordingWriter
from .formats import recording_problem as recording_problem
from .minari_format import MinariFormat as MinariFormat
from .recordings import InstalledRecordings as InstalledRecordings
from .recordings import read_recording as read_recording
from .records import RecordingFormatSpec as RecordingFormatSpec
from .slot_recorder import SlotRecorder as SlotRecorder
