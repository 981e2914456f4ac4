"""What the brokers of the tests are started with."""

BRIEF_SESSION = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
"""For a broker that is killed: it may register again only when its old session is over; the default is 9 s."""

LONG_SESSION = {"broker.session.timeout.ms": "120000"}
"""For one that lives on: a machine that keeps it waiting does not shut it out. While it is out no topic can be created."""
