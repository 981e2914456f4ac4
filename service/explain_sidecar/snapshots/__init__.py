"""A partition's state as bytes, under a manifest that is checked, and signed where it must be, before anything is loaded."""
