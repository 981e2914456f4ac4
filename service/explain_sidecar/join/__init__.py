"""``explain-sidecar join``: events and their labels, which come on two topics, become the records topic, exactly once."""
