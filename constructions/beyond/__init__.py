"""What the theorems leave open: two heads, and probes of every shift-invariant encoding."""

from constructions.beyond._shift_probes import SHIFT_ENCODINGS as SHIFT_ENCODINGS
from constructions.beyond._shift_probes import OptimisedProbe as OptimisedProbe
from constructions.beyond._shift_probes import ShiftProbe as ShiftProbe
from constructions.beyond._shift_probes import failing_case as failing_case
from constructions.beyond._shift_probes import optimise_probe as optimise_probe
from constructions.beyond._shift_probes import refuting_cases as refuting_cases
from constructions.beyond._shift_probes import strongest_probe as strongest_probe
from constructions.beyond._two_heads import search_heads as search_heads
