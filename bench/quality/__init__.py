"""Quality on many tables: fidelity, utility and imputation, by table, mechanism, seed and method; see command.py."""
