"""Windows of one cell: the weight gradient as a product of matrices that are read where they are."""
