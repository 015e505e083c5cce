"""The window explorer: one page on which windows slide, with the arithmetic of the specification in JavaScript."""
