"""Noise, objective and solver: what makes the network a diffusion model."""
