"""Reproduction of the paper's tables and figure: ``missdiff reproduce`` and its parts.

`missdiff_fast.reproduce.runner.reproduce` runs; `missdiff_fast.reproduce.registry` holds the experiments by name,
`missdiff_fast.reproduce.scales` how much work it is, and `missdiff_fast.reproduce.paper` what the paper prints.

Source: Ouyang et al. (2023), MissDiff. The names are those of the labels in the paper's source.
"""
