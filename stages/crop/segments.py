"""Which segment ids survive a crop."""

from collections.abc import Mapping
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from stages.crop.errors import CropError, SegmentNameError
from stages.crop.spec import CropSpec


def kept_segments(
    spec: CropSpec, segment_table: Mapping[str, int] | None
) -> NDArray[np.uint16] | None:
    """Sorted ids that stay, or None when the crop does not look at segments.

    `extract_segments` wins over `remove_segments`. Raises SegmentNameError for a name or pattern
    that matches nothing, since a typo would otherwise give empty or uncropped clouds.
    """
    if not spec.extract_segments and not spec.remove_segments:
        return None
    if segment_table is None:
        raise CropError(
            "crop: extract_segments or remove_segments is set, but no segment table (name -> id) "
            "came with the image; pass segment and segment_table, or clear both in the crop"
        )
    if spec.extract_segments:
        kept = matching_ids(spec.extract_segments, segment_table)
    else:
        removed = matching_ids(spec.remove_segments, segment_table)
        kept = set(segment_table.values()) - removed
    return np.array(sorted(kept), dtype=np.uint16)


def matching_ids(patterns: tuple[str, ...], table: Mapping[str, int]) -> set[int]:
    """Ids of all names that match one of `patterns`; SegmentNameError for one that matches none."""
    ids: set[int] = set()
    for pattern in patterns:
        found = {i for name, i in table.items() if fnmatchcase(name, pattern)}
        if not found:
            raise SegmentNameError(pattern, table)
        ids |= found
    return ids
