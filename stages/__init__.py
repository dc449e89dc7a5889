"""The verbs: one room per stage. Rooms meet only through the records in `schemas`."""
