"""The fold: the state of a partition as a function of its records, and the messages that it gives out. No Kafka, no clock."""
