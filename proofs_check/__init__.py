"""Runs the checks, writes certificates, reports; the command line.

`proofs_check.verify` is the independent checker and imports nothing else of this package, so nothing is imported here.
"""
