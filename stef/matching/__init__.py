"""Compares two filters: soft on names, strict on values after canonical form.

Shared by the alignment of question and SQL, by the expansion check, and by the conditions of R_app.
"""

from stef.matching.columns import NEAR, is_moment, nearness
from stef.matching.comparison import EFFECTS, SELF_DEFEATING, Comparison
from stef.matching.filters import compare, covers
from stef.matching.presence import flag_words, truth

__all__ = [
    "EFFECTS",
    "NEAR",
    "SELF_DEFEATING",
    "Comparison",
    "compare",
    "covers",
    "flag_words",
    "is_moment",
    "nearness",
    "truth",
]
