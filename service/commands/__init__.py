"""The commands, one file each; ``service.cli`` only registers them."""
