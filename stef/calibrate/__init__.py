"""Fits `p_offline`, and a model's word, to labels of one's own: what `stef calibrate` does, without file and screen."""

from __future__ import annotations

from stef.calibrate.judged import JudgeSamples, JudgeStudy, gather_judged, study_judged
from stef.calibrate.reliability import Bin, Figures
from stef.calibrate.study import Samples, Study, gather, study

__all__ = [
    "Bin",
    "Figures",
    "JudgeSamples",
    "JudgeStudy",
    "Samples",
    "Study",
    "gather",
    "gather_judged",
    "study",
    "study_judged",
]
