"""Kafka: clients, topics, checkpoints, the loop."""
