"""Windows of one cell, as products of matrices that are read where they are: the weight gradient, and sums of very few rows."""
