"""Everything that a person sees on a terminal: colour and frames there, plain and whole text in a pipe.

Functions take a rich `Console` and print nowhere else. Text from the log is made safe on its way out.
"""

from __future__ import annotations

from stef.display.calibration import show_judge_study, show_study
from stef.display.catalogue import show_catalogue
from stef.display.check import Check, CheckedMessage, CheckedRules, show_check
from stef.display.comparison import show_comparison
from stef.display.explain import show_explanation
from stef.display.labels import show_labels
from stef.display.results import outcome_line, progress, show_results
from stef.display.text import clean, safe

__all__ = [
    "Check",
    "CheckedMessage",
    "CheckedRules",
    "clean",
    "outcome_line",
    "progress",
    "safe",
    "show_catalogue",
    "show_check",
    "show_comparison",
    "show_explanation",
    "show_judge_study",
    "show_labels",
    "show_results",
    "show_study",
]
