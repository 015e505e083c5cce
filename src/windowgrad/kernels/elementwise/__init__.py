"""Cell by cell: relu, padding."""
