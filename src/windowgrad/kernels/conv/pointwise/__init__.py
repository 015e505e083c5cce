"""Windows of one cell: products of matrices that are read where they are."""
