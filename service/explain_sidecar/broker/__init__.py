"""A real Apache Kafka broker for demos and tests, from Python and Maven packages alone."""
