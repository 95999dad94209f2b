"""The copy task: strings, tokens around them, positions, and the relations that positions can stand in."""

from theory.task._answers import LengthAnswer as LengthAnswer
from theory.task._answers import Status as Status
from theory.task._copy_task import CopyTask as CopyTask
from theory.task._copy_task import Distribution as Distribution
from theory.task._copy_task import Strings as Strings
from theory.task._copy_task import all_strings as all_strings
from theory.task._copy_task import grid_positions as grid_positions
from theory.task._copy_task import require_room as require_room
from theory.task._copy_task import sample_strings as sample_strings
from theory.task._copy_task import single_flip_strings as single_flip_strings
from theory.task._copy_task import spell as spell
from theory.task._copy_task import theory_task as theory_task
from theory.task._copy_task import trained_task as trained_task
from theory.task._relations import ENCODED as ENCODED
from theory.task._relations import RELATION_NAMES as RELATION_NAMES
from theory.task._relations import RELATIONS as RELATIONS
from theory.task._relations import Position as Position
from theory.task._relations import Relate as Relate
from theory.task._relations import Related as Related
from theory.task._relations import relation_named as relation_named
from theory.task._template import Place as Place
from theory.task._template import Template as Template
