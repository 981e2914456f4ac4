from pathlib import Path

KEY_FILE = Path(__file__).with_name("snapshot.keys")
"""Signs the snapshots of models that only their own code can store."""
