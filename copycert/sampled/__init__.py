"""What is measured on samples, and never called proof: comparisons of encodings and verdicts of runs."""

from copycert.sampled._comparison import Job as Job
from copycert.sampled._comparison import Questions as Questions
from copycert.sampled._comparison import compare as compare
from copycert.sampled._comparison import comparison_document as comparison_document
from copycert.sampled._comparison import repetition_summary as repetition_summary
from copycert.sampled._comparison import run_job as run_job
from copycert.sampled._comparison import summary as summary
from copycert.sampled._comparison import write_comparison as write_comparison
from copycert.sampled._verdicts import CONVERGED as CONVERGED
from copycert.sampled._verdicts import Verdict as Verdict
from copycert.sampled._verdicts import share as share
from copycert.sampled._verdicts import verdict_on as verdict_on
