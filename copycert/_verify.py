"""The independent checker on files and folders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from proofs_check.verify import Finding, Verdict, verify_paths


@dataclass(frozen=True)
class Verification:
    """What the checker says of some files.

    Attributes:
        findings: one a file, in order; of a folder, other JSON files are skipped.
    """

    findings: tuple[Finding, ...]

    @property
    def verdicts(self) -> list[Verdict]:
        """One a file that is not skipped; what cannot be read as a certificate is rejected with the reason."""
        return [
            finding.verdict or Verdict(finding.file, False, None, finding.unreadable)
            for finding in self.findings
            if finding.skipped is None
        ]

    @property
    def accepted(self) -> bool:
        """Is there a certificate, and is every one accepted?"""
        return bool(self.verdicts) and all(verdict.accepted for verdict in self.verdicts)

    @property
    def statements(self) -> list[str]:
        """What the checker derived itself from those accepted."""
        return [verdict.statement for verdict in self.verdicts if verdict.statement is not None]

    @property
    def exit_code(self) -> int:
        """0 all accepted, 1 one rejected, 2 one cannot be read."""
        if any(finding.unreadable is not None for finding in self.findings):
            return 2
        return 0 if all(verdict.accepted for verdict in self.verdicts) else 1

    def document(self) -> dict[str, Any]:
        """The JSON object of `copycert verify --json`."""
        skipped = [finding for finding in self.findings if finding.skipped is not None]
        return {
            "files": [asdict(verdict) for verdict in self.verdicts],
            "skipped": [{"file": finding.file, "reason": finding.skipped} for finding in skipped],
        }

    def __repr__(self) -> str:
        accepted = len(self.statements)
        return f"<Verification: {accepted} accepted, {len(self.verdicts) - accepted} rejected>"


def verify(*paths: Path | str, tell: Callable[[Finding], None] = lambda finding: None) -> Verification:
    """Check certificates, and all those in folders, with the checker that shares no code with what made them.

    Args:
        paths: files and folders.
        tell: called with what became of each file, as it is done.
    """
    findings = []
    for finding in verify_paths([Path(path) for path in paths]):
        findings.append(finding)
        tell(finding)
    return Verification(tuple(findings))
