"""Outcome codes of one labelled grasp. Every grasp that goes in comes out with exactly one."""

OK = "ok"
DIRECTIONS = ("+x", "-x", "+y", "-y", "+z", "-z")
"""World directions of the six external forces; columns of `direction_success`."""
DROPPED = tuple(f"dropped_{direction}" for direction in DIRECTIONS)
ROTATED = "rotated"
INITIAL_PENETRATION = "initial_penetration"
NO_CONTACT = "no_contact"
SLIPPED = "slipped"
OUT_OF_REACH = "out_of_reach"
NOT_GRASPED = "not_grasped"
NOT_LIFTED = "not_lifted"
DIVERGED = "diverged"
INVALID_INPUT = "invalid_input"
CRASHED = "crashed"
TIMED_OUT = "timed_out"

MEANINGS: dict[str, str] = {
    OK: "the object stayed in the hand",
    **{
        code: f"moved past trans_thre under the force along {direction} (first that failed)"
        for code, direction in zip(DROPPED, DIRECTIONS, strict=True)
    },
    ROTATED: "turned past angle_thre",
    INITIAL_PENETRATION: "the pregrasp or grasp pose starts deeper in the object than max_pene",
    NO_CONTACT: "no contact body touches the object after the squeeze, or after the lift (rollout: "
    "no contact link pushes it at the end)",
    SLIPPED: "moved in the hand past lift_slip_thre during the lift",
    OUT_OF_REACH: "the arm of a rig cannot lift that high from where it is",
    NOT_GRASPED: "fewer than two contact links push the object, or none against another (rollout)",
    NOT_LIFTED: "the object did not rise by target_lift_dist (rollout)",
    DIVERGED: "the simulation gave a non-finite or absurd state",
    INVALID_INPUT: "the grasp holds NaN or infinity, or a quaternion that is not a unit one",
    CRASHED: "the worker process died on this grasp",
    TIMED_OUT: "the grasp took longer than timeout_s of wall-clock time",
}
FAULTS = frozenset({DIVERGED, INVALID_INPUT, CRASHED, TIMED_OUT})
"""Codes that say something about the machinery rather than about the grasp."""
