"""Mean and its gradient: by rows, or by runs of channels where channels are last."""
