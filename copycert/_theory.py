"""What the questions are made of."""

from theory import BasePower as BasePower
from theory import CopyTask as CopyTask
from theory import Decision as Decision
from theory import GridFrequencies as GridFrequencies
from theory import InputError as InputError
from theory import Radian as Radian
from theory import Template as Template
from theory import Turn as Turn
from theory import draw_grid_frequencies as draw_grid_frequencies
from theory import thresholds as thresholds
