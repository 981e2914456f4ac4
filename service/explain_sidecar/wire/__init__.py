"""What is on the topics as others see it: schemas, their documents and registry, and the framing of messages."""
