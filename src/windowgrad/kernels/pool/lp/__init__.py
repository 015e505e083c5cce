"""The p-norm of windows, on machine numbers."""
