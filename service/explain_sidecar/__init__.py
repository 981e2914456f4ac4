"""The explanation sidecar: everything that touches Kafka, HTTP, files and the clock."""
