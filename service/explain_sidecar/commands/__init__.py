"""What the commands do, one file each; ``explain_sidecar.cli`` declares them."""
