"""Judges: a verdict and a confidence for one record, from the evidence alone or from a model."""

from stef.judge.case import Judge, JudgeCase

__all__ = ["Judge", "JudgeCase"]
