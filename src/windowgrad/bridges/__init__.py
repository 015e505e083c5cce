"""Arrays of other frameworks: one module each, loaded when an array of theirs is met."""
