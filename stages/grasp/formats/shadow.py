"""The Shadow hand's 22 joints, as the menagerie's MJCF names and orders them."""

_FINGERS = {"FF": 4, "MF": 4, "RF": 4, "LF": 5, "TH": 5}

SHADOW_JOINTS = tuple(f"rh_{f}J{k}" for f, n in _FINGERS.items() for k in range(n, 0, -1))
