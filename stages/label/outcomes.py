"""Outcome codes of a label. They are the codes of the environment that scored the grasp."""

from stages.envs.outcomes import (
    CRASHED,
    DIRECTIONS,
    DIVERGED,
    DROPPED,
    FAULTS,
    INITIAL_PENETRATION,
    INVALID_INPUT,
    MEANINGS,
    NO_CONTACT,
    NOT_GRASPED,
    NOT_LIFTED,
    OK,
    OUT_OF_REACH,
    ROTATED,
    SLIPPED,
    TIMED_OUT,
)

__all__ = [
    "CRASHED",
    "DIRECTIONS",
    "DIVERGED",
    "DROPPED",
    "FAULTS",
    "INITIAL_PENETRATION",
    "INVALID_INPUT",
    "MEANINGS",
    "NOT_GRASPED",
    "NOT_LIFTED",
    "NO_CONTACT",
    "OK",
    "OUT_OF_REACH",
    "ROTATED",
    "SLIPPED",
    "TIMED_OUT",
]
