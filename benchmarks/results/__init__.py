"""Stored rows, a file a benchmark, and the tables that pages quote of them."""
