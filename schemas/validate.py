"""Checks of a record by its field names: they carry the frames and units."""

from dataclasses import fields
from typing import Any

import numpy as np

from schemas.errors import FrameError
from schemas.frames import ROTATION_TOLERANCE, check_transform

NAN_ALLOWED = {
    "confidence",  # not asked for, or never simulated
    "qp",  # no contact, not asked for, or never simulated
    "qp_dfc",
    "q1",
    "tdg",
    "dfc",
    "contact_distance",  # never simulated
    "contact_consistency",
    "final_object_pose",  # diverged or never simulated
    "translation",
    "rotation",
    "hand_object_penetration",
    "self_penetration",
}


def problems(record: Any) -> list[str]:
    """All that is wrong with a record: NaN, quaternions not of unit length, transforms not rigid.

    `*_pose`, `*_poses` and `*_qpos` hold xyz + wxyz in their first seven columns; `T_*` are rigid.
    """
    out: list[str] = []
    for field in fields(record):
        value = getattr(record, field.name)
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
            continue
        name = field.name
        if name not in NAN_ALLOWED and not np.isfinite(value).all():
            out.append(f"{name}: holds NaN or infinity")
        elif name.startswith("T_"):
            try:
                check_transform(value, name)
            except FrameError as error:
                out.append(str(error))
        elif name.endswith(("_pose", "_poses", "_qpos")):
            norms = np.linalg.norm(value.reshape(-1, value.shape[-1])[:, 3:7], axis=1)
            norms = norms[np.isfinite(norms)]
            if len(norms) and np.abs(norms - 1).max() > ROTATION_TOLERANCE:
                out.append(
                    f"{name}: a quaternion (columns 3 to 6, wxyz) has norm "
                    f"{norms[np.abs(norms - 1).argmax()]:.9g}, expected 1"
                )
    return out
