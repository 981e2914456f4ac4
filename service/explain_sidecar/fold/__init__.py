"""The fold: the state of a partition as a function of its records, and the messages that it emits. No Kafka, no clock."""
