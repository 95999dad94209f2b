"""The independent certificate checker: from a file to the statement that it proves, or to why it proves none.

It shares no code with what makes certificates, and needs python-flint only. docs/certificates.md specifies it.
"""

from proofs_check.verify._verdict import Finding as Finding
from proofs_check.verify._verdict import Verdict as Verdict
from proofs_check.verify._verdict import verify_file as verify_file
from proofs_check.verify._verdict import verify_paths as verify_paths
from proofs_check.verify.reading import UnreadableCertificateError as UnreadableCertificateError
from proofs_check.verify.reading import certificates_in as certificates_in
