"""Any geometry: panels of weights and cells are packed, and multiplied tile by tile."""
