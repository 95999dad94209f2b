"""Theorem 3.1: the system of signs that one attention layer must satisfy, its certificates, and their search."""

from theory.signs._certificate import Case as Case
from theory.signs._certificate import Certificate as Certificate
from theory.signs._certificate import Witness as Witness
from theory.signs._certificate import check_certificate as check_certificate
from theory.signs._certificate import seen_by_steps as seen_by_steps
from theory.signs._decide import Decision as Decision
from theory.signs._decide import Threshold as Threshold
from theory.signs._decide import decide as decide
from theory.signs._decide import thresholds as thresholds
from theory.signs._farkas import UndecidedError as UndecidedError
from theory.signs._system import Layout as Layout
from theory.signs._system import Signs as Signs
from theory.signs._system import SignSystem as SignSystem
from theory.signs._system import Unknown as Unknown
from theory.signs._system import sign_system as sign_system
from theory.signs._theorem_3_1 import THEOREM_3_1 as THEOREM_3_1
