"""What is served over HTTP, by the supervisor or by ``explain-sidecar dashboard``; never by a worker."""
