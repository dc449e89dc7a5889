"""Who touches whom, in one place: MuJoCo's contype/conaffinity bits."""

# A pair collides when (contype_1 & conaffinity_2) or (contype_2 & conaffinity_1).
HAND_BIT, OBJECT_BIT, TABLE_BIT = 1, 2, 4

HAND_CONTYPE, HAND_CONAFFINITY = HAND_BIT, HAND_BIT | OBJECT_BIT
OBJECT_CONTYPE, OBJECT_CONAFFINITY = OBJECT_BIT, HAND_BIT | OBJECT_BIT | TABLE_BIT
TABLE_CONTYPE, TABLE_CONAFFINITY = TABLE_BIT, OBJECT_BIT

HAND_GROUP, OBJECT_GROUP, TABLE_GROUP = 3, 1, 0
"""Geom groups, for viewers and rays."""
