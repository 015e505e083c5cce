"""Pooling: plans of windows, and the passes over rows and axes that maximum, mean and smooth maximum share."""
