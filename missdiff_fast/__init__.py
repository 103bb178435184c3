"""A diffusion model trained straight on tables with holes."""
