"""Where the camera is on the robot, and how well measurements agree on it.

A board is seen from N poses of the hand. With the camera in the hand, T_base_hand X T_cam_board is
the board's pose in the base and must not move; with the camera beside the robot and the board in
the hand, T_base_hand^-1 X T_cam_board must not. X by Park and Martin 1994: rotation by least
squares of the rotation vectors of relative motions, then translation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schemas.frames import check_transform, invert
from stages.robot.errors import CalibrationError

Float = NDArray[np.float64]
Mount = Literal["hand", "base"]
FEWEST = 3  # poses
LEAST_TURN = 0.1  # rad between poses, about two axes


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class HandEye:
    """`T` (4, 4) is T_hand_cam or T_base_cam; what is left of N poses: m (N,) and rad (N,)."""

    mount: Mount
    T: Float
    translation: Float
    rotation: Float

    @property
    def rms(self) -> tuple[float, float]:
        """m and rad."""
        return _rms(self.translation), _rms(self.rotation)

    def lines(self) -> list[str]:
        """A report, worst poses marked."""
        name = "T_hand_cam" if self.mount == "hand" else "T_base_cam"
        out = [f"{name}:"]
        out += ["  " + " ".join(f"{v:+.6f}" for v in row) for row in self.T.tolist()]
        out.append("pose   mm     degrees")
        limit = 2 * self.rms[0]
        for i, (move, turn) in enumerate(
            zip(self.translation.tolist(), self.rotation.tolist(), strict=True)
        ):
            mark = "  more than twice the rms: measure it again" if move > limit else ""
            out.append(f"{i:>4}  {1000 * move:6.2f}  {np.degrees(turn):6.3f}{mark}")
        out.append(f"rms   {1000 * self.rms[0]:6.2f}  {np.degrees(self.rms[1]):6.3f}")
        return out


def solve_hand_eye(
    T_base_hand: Sequence[ArrayLike], T_cam_board: Sequence[ArrayLike], mount: Mount
) -> HandEye:
    """X from N >= 3 poses that turn about two axes. Raises CalibrationError or FrameError."""
    hands, boards = _checked(T_base_hand, T_cam_board, mount)
    # A X = X B over pairs: A moves the hand (or its inverse), B the board as seen
    pairs = [(i, j) for i in range(len(hands)) for j in range(i)]
    A, B = [], []
    for i, j in pairs:
        A.append(invert(hands[j]) @ hands[i])
        B.append(boards[j] @ invert(boards[i]))
    a = np.array([_log(T[:3, :3]) for T in A])
    b = np.array([_log(T[:3, :3]) for T in B])
    turning = np.linalg.norm(a, axis=1) > LEAST_TURN
    spread = np.linalg.svd(a[turning], compute_uv=False) if turning.any() else np.zeros(3)
    if len(spread) < 2 or spread[1] < LEAST_TURN:
        raise CalibrationError(
            "hand-eye: the poses turn the hand about one axis or not at all, so that the camera "
            "cannot be told; turn it by 0.1 rad and more about at least two axes"
        )
    R = _nearest_rotation(a.T @ b)
    left = np.concatenate([T[:3, :3] - np.eye(3) for T in A])
    right = np.concatenate([R @ Tb[:3, 3] - Ta[:3, 3] for Ta, Tb in zip(A, B, strict=True)])
    X = np.eye(4)
    X[:3, :3], X[:3, 3] = R, np.linalg.lstsq(left, right, rcond=None)[0]
    return residuals(T_base_hand, T_cam_board, mount, X)


def residuals(
    T_base_hand: Sequence[ArrayLike], T_cam_board: Sequence[ArrayLike], mount: Mount, T: ArrayLike
) -> HandEye:
    """How far each pose's board lies from the mean of all, when the camera is at `T`."""
    hands, boards = _checked(T_base_hand, T_cam_board, mount)
    X = check_transform(T, "T_hand_cam" if mount == "hand" else "T_base_cam")
    fixed = np.array([h @ X @ b for h, b in zip(hands, boards, strict=True)])
    R = _nearest_rotation(fixed[:, :3, :3].mean(axis=0))
    return HandEye(
        mount=mount,
        T=X,
        translation=np.linalg.norm(fixed[:, :3, 3] - fixed[:, :3, 3].mean(axis=0), axis=1),
        rotation=np.array([np.linalg.norm(_log(R.T @ F[:3, :3])) for F in fixed], np.float64),
    )


def _checked(
    T_base_hand: Sequence[ArrayLike], T_cam_board: Sequence[ArrayLike], mount: Mount
) -> tuple[list[Float], list[Float]]:
    """Hands, inverted where the board is in the hand, and boards."""
    if mount not in ("hand", "base"):
        raise CalibrationError(f"mount: expected hand or base, got {mount!r}")
    if len(T_base_hand) != len(T_cam_board) or len(T_base_hand) < FEWEST:
        raise CalibrationError(
            f"hand-eye: expected as many hand poses as board poses and at least {FEWEST}, got "
            f"{len(T_base_hand)} and {len(T_cam_board)}"
        )
    hands = [check_transform(T, f"T_base_hand[{i}]") for i, T in enumerate(T_base_hand)]
    boards = [check_transform(T, f"T_cam_board[{i}]") for i, T in enumerate(T_cam_board)]
    return [T if mount == "hand" else invert(T) for T in hands], boards


def _nearest_rotation(M: Float) -> Float:
    """(3, 3) the rotation nearest to M in the least squares sense."""
    u, _, vt = np.linalg.svd(M)
    return u @ np.diag([1, 1, np.linalg.det(u @ vt)]) @ vt


def _log(R: Float) -> Float:
    """(3,) rotation vector."""
    axis = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    sine, cosine = np.linalg.norm(axis) / 2, (np.trace(R) - 1) / 2
    angle = float(np.arctan2(sine, cosine))
    if sine > 1e-6:
        return axis / (2 * sine) * angle
    if cosine > 0:
        return axis / 2
    # half a turn: the axis is the eigenvector of 1
    values, vectors = np.linalg.eigh((R + R.T) / 2)
    return vectors[:, int(np.argmax(values))] * angle


def _rms(values: Float) -> float:
    return float(np.sqrt(np.mean(values**2)))
