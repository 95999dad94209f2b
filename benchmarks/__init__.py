"""Benchmarks: medians and ratios within one run.

`python -m benchmarks` prints the table and writes results/benchmarks.jsonl.
"""
