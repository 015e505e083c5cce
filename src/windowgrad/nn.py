"""Layers as frozen descriptions; parameters are plain values you hold."""
