"""What was asked against what is delivered, filters and structure alike, and the probability from all of it.

Each check is one function: it names what it found with a feature (0 to 1, more is worse), a reason code and a sentence.
"""

from stef.evidence.facts import Facts, Signal
from stef.evidence.weighing import CHECKS, gather

__all__ = ["CHECKS", "Facts", "Signal", "gather"]
