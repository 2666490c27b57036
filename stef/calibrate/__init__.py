"""Fits `p_offline` to labels of one's own: what `stef calibrate` does, without file and screen."""

from __future__ import annotations

from stef.calibrate.reliability import Bin, Figures
from stef.calibrate.study import Samples, Study, gather, study

__all__ = ["Bin", "Figures", "Samples", "Study", "gather", "study"]
