"""What a log has shown of an application's databases: stef's substitute for a schema. Pure.

`observe` reads off what one record shows, a `Learner` counts it for one database, a `Catalogue` is what is frozen of
that, and an `Epoch` holds the catalogues of all databases that a run is pinned to. Distinct questions are counted, and
a `View` leaves the record's own one out.
"""

from stef.catalogue.epoch import Epoch, Learners, Where
from stef.catalogue.learner import Learner, Tally
from stef.catalogue.observation import Observation, day_of, folded_table, key_mark, observe, question_digest
from stef.catalogue.plain import declared, declared_rows, from_plain, to_plain
from stef.catalogue.snapshot import Catalogue, View

__all__ = [
    "Catalogue",
    "Epoch",
    "Learner",
    "Learners",
    "Observation",
    "Tally",
    "View",
    "Where",
    "day_of",
    "declared",
    "declared_rows",
    "folded_table",
    "from_plain",
    "key_mark",
    "observe",
    "question_digest",
    "to_plain",
]
