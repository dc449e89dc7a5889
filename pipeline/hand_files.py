"""The file of a hand whose grasps a dataset holds, which names it and its digest alone."""

from pipeline.errors import UserError
from pipeline.registry import Registry
from pipeline.saved import load_saved
from stages.assets.hands.errors import HandError, HandNotFoundError, UnknownHandKeyError
from stages.assets.hands.load import hand_digest, load_hand
from stages.shard.grasps import GraspTable


def find_hand(table: GraspTable) -> str | None:
    """Name or path of the hand file with the digest of the grasps; None when it is not here.

    Looked for in configs/hands and where the last run in the dataset's folder had it.
    """
    try:
        hands = load_saved(table.out, Registry()).sections["grasp"].hands
    except UserError:
        hands = ()
    for source in (table.hand, *hands):
        try:
            if hand_digest(load_hand(source)) == table.hand_digest:
                return source
        except (HandError, HandNotFoundError, UnknownHandKeyError):
            continue
    return None
