"""What is done with a model file from the command line: `windowgrad run` and `windowgrad model`."""
