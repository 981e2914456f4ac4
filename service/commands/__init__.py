"""What the commands do, one file each; ``service.cli`` declares them."""
