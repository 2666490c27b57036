"""Aligns the filters of question and SQL: one-to-one, with evidence for every filter of either side.

Source: STEF paper (arXiv 2604.28049), the four categories; required and introduced filters, effects and certainties go
beyond it.
"""

from stef.align.category import align
from stef.align.comparer import Comparer
from stef.align.expansion import check_expansion
from stef.align.words import Texts

__all__ = ["Comparer", "Texts", "align", "check_expansion"]
