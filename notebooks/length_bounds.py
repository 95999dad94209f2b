# ---
# jupyter:
#   jupytext:
#     formats: py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # How far can an attention model copy?
#
# A model reads a string of n symbols and must write it again. This notebook follows two constructions for which that
# question has an exact answer, and compares them at the same *norm budget* rho, the Euclidean norm of all parameters:
#
# * **Theorem 3.2**: two attention layers with RoPE. Printed length: rho^2/(1000 ln rho).
# * **Theorem 4.1**: one attention layer with 2D-RoPE (row and column positions). Printed length: rho^(d/12).
#
# Run it as a notebook (`pip install 'copycert[notebooks]'`, then open it through jupytext) or as a plain script.
# `COPYCERT_QUICK=1` takes fewer draws.

# %%
import os
from fractions import Fraction
from math import log10

import numpy as np

from constructions import build_grid_copier, build_two_layer_copier, greedy_copy, replay
from theory import draw_grid_frequencies, exact_length, paper_two_layer_length, sample_strings, two_layer_length
from theory.grid import furthest_length, norm_ceiling

QUICK = bool(os.environ.get("COPYCERT_QUICK"))
DRAWS = 3 if QUICK else 20

# %% [markdown]
# ## A model small enough to break
#
# At d = 8 and a tiny budget the exact length n\* of a model is a few dozen. Up to n\* *every* binary string is copied:
# a theorem about this one model, not a sample. At n\*+1 there is a string that it gets wrong.

# %%
copier = build_grid_copier(rho=6, d=8, a=2, b=3, frequencies=draw_grid_frequencies(8, seed=0, draw=0))
found = exact_length(copier.score())
print(f"square norm {float(copier.square_norm()):.6f} <= 36, n* = {found.length}")

strings = sample_strings("recursive-flip", found.length, count=3, seed=0)
print("recursive-flip strings of length n* copied:", bool((greedy_copy(copier, strings) == strings).all()))

witness = np.zeros(found.fails.length, dtype=np.int64)
witness[found.fails.flip_position - 1] = 1
print(f"one symbol longer: string {''.join(map(str, witness))}, step {found.fails.step}")
print("the torch model gets that step wrong:", replay(copier, witness, found.fails.step).wrong)

# %% [markdown]
# ## One layer with 2D-RoPE at the theorem's size
#
# At rho = 20000 and d = 120 no scan can reach the lengths in question. A lattice argument certifies every string of
# every length up to L for single frequency draws, and a theorem of Dirichlet says where *no* choice of frequencies
# carries such a copier.

# %%
rho, d = 20_000, 120
certified = []
for draw in range(DRAWS):
    length, _ = furthest_length(build_grid_copier(rho, d, 2, 3, draw_grid_frequencies(d, seed=0, draw=draw)).score())
    certified.append(log10(length))
print(f"printed length         10^{d / 12 * log10(rho):.1f}")
print(f"certified for draws    10^{min(certified):.1f} to 10^{max(certified):.1f}")
print(f"no choice reaches      10^{log10(norm_ceiling(d, Fraction(rho)).fails_at):.1f}")

# %% [markdown]
# ## Two layers with RoPE
#
# Here the length is about rho^2, whatever the dimension is. The paper's weights copy about twice what is printed;
# weights that spend the budget better copy a thousand times more.

# %%
for rho_two in (10_001, 10**6):
    print(f"rho = {rho_two}: printed {paper_two_layer_length(Fraction(rho_two))}")
    for variant, pairs in (("paper", 1), ("sharp", 1 if QUICK else 8)):
        two_layers = build_two_layer_copier(Fraction(rho_two), 2, 3, variant, pairs=pairs)
        bound = two_layer_length(two_layers.scores(), two_layers.length)
        constant = float(bound.lower / Fraction(rho_two) ** 2)
        reached = f"every string up to {bound.lower} ({constant:.3g} rho^2), not up to {bound.upper + 1}"
        print(f"  {variant:5} weights: {reached}")

# %% [markdown]
# ## The picture
#
# The same figure comes from `copycert plot bounds --out bounds.pdf`. Each entry of the legend carries its two labels:
# who says it (paper, reconstructed, new) and how it is known.

# %%
if not QUICK:
    from copycert.figures import bounds_series, draw_bounds

    figure = draw_bounds(bounds_series(DRAWS, seed=0))
    figure  # noqa: B018 - the notebook shows it
