"""Reads questions in the languages that have a phrasebook: one engine, all words and word orders in data."""

from stef.tongues.detect import Detector
from stef.tongues.extract import extract, joined

__all__ = ["Detector", "extract", "joined"]
