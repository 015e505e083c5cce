"""How kernels are compiled, kept, run on threads and given memory."""
