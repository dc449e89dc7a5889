"""Published grasp formats, read into and written from this project's records."""

from stages.grasp.formats.record import ImportedGrasps
from stages.grasp.formats.registry import FORMATS, read_grasps, write_grasps

__all__ = ["FORMATS", "ImportedGrasps", "read_grasps", "write_grasps"]
