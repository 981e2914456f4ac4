"""Kafka: clients, topics, checkpoints, the loop, and a local broker."""
