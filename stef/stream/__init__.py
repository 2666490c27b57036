"""From a source through `evaluate` to the sinks: the loop, files, Kafka, dead letters, and test doubles."""
