"""The paper's tables and its figure, rerun: ``missdiff reproduce`` and what it is made of.

`missdiff_fast.reproduce.runner.reproduce` runs; `missdiff_fast.reproduce.registry` holds what each name stands for,
`missdiff_fast.reproduce.scales` how much work it is, and `missdiff_fast.reproduce.paper` what the paper prints.

Source: Ouyang et al. (2023), MissDiff. The names are those of the labels in the paper's source.
"""
