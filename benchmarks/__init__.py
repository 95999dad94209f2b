"""Benchmarks: what is timed, and what is tried too often for the test suite.

`python -m benchmarks` times what there is, medians and ratios within one run. Every benchmark writes rows to results/
(`_campaign` says in what form); pages quote them through `results/_tables.py`.
"""
