"""Models trained elsewhere, as the files that their libraries write: read without running what is in them, and never taught."""
