"""Errors of the crop."""

from collections.abc import Iterable


class CropError(ValueError):
    """The crop cannot be applied to these inputs, or its parameters contradict each other."""


class SegmentNameError(CropError):
    """A segment name or pattern of the crop matches nothing in the scene's segment table."""

    def __init__(self, pattern: str, known: Iterable[str]) -> None:
        super().__init__(
            f"crop: the segment {pattern!r} matches none of this scene's segments: "
            f"{', '.join(sorted(known))}"
        )


class CropDigestError(CropError):
    """The crop at hand is not the one that made the dataset."""

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(
            f"crop digest: expected {expected} (of the dataset or checkpoint), got {got}: clouds "
            "made with this crop do not match the training clouds. Take the CropSpec from the "
            "dataset (`crop` in dataset.json)"
        )


class ImageFileError(CropError):
    """A file given to the crop cannot be read, or its unit or size is wrong."""
