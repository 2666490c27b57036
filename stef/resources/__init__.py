"""Data of the package: lexicons, lists, weights, schemas."""
