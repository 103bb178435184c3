"""Training and sampling on a chosen backend: private to the package."""
