"""Each channel by itself: no channels to sum over."""
