"""Plots, one file a figure."""

from copycert.figures._bounds import bounds_document as bounds_document
from copycert.figures._bounds import bounds_series as bounds_series
from copycert.figures._bounds import bounds_ticks as bounds_ticks
from copycert.figures._bounds import draw_bounds as draw_bounds
from copycert.figures._comparison import plot_attention as plot_attention
from copycert.figures._comparison import plot_lengths as plot_lengths
from copycert.figures._comparison import plot_repetition as plot_repetition
from copycert.figures._comparison import plot_training_distributions as plot_training_distributions
from copycert.figures._comparison import require_plots as require_plots
from copycert.figures._minimisers import POINTS as POINTS
from copycert.figures._minimisers import draw_minimisers as draw_minimisers
from copycert.figures._minimisers import minimiser_figures as minimiser_figures
from copycert.figures._minimisers import require_matplotlib as require_matplotlib
from copycert.figures._style import MARKERS as MARKERS
from copycert.figures._style import PALETTE as PALETTE
from copycert.figures._style import new_figure as new_figure
from copycert.figures._style import require_figure_file as require_figure_file
from copycert.figures._style import save_figure as save_figure
