"""The tape, the transforms, and the array operators that a network needs."""
