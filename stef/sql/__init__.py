"""SQL → spec: lifting the statement, parsing it, reading its conditions and shape, safety findings."""
