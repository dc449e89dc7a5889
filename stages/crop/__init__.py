"""Everything between a depth image and the stored cloud. The renderer and the robot call this.

numpy, the standard library and `schemas` only, so that a robot needs nothing else.
"""

from stages.crop.crop import CroppedCloud, crop_depth, crop_pixels
from stages.crop.errors import CropDigestError, CropError, SegmentNameError
from stages.crop.rays import pixel_slopes, slopes_at
from stages.crop.sampling import farthest_order, farthest_points
from stages.crop.segments import kept_segments
from stages.crop.spec import CropSpec

__all__ = [
    "CropDigestError",
    "CropError",
    "CropSpec",
    "CroppedCloud",
    "SegmentNameError",
    "crop_depth",
    "crop_pixels",
    "farthest_order",
    "farthest_points",
    "kept_segments",
    "pixel_slopes",
    "slopes_at",
]
