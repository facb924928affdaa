"""Files that were tampered with: a short version of `benchmarks.tampering`."""

from __future__ import annotations

from pathlib import Path

from benchmarks.tampering import fuzz, tamper, tamper_and_resume
from tests.test_stops import stopped_before


def test_no_tampering_goes_unseen_or_ends_in_a_traceback(small: Path) -> None:
    found, bad = tamper(small, 40, seed=1)
    assert not bad
    assert found["refused"] > 15 and found["identical"] > 3, found


def test_no_tampering_with_a_stopped_run_changes_what_it_becomes(small: Path, tmp_path: Path) -> None:
    found, bad = tamper_and_resume(small, stopped_before("train", small, tmp_path), 4, seed=1)
    assert not bad
    assert found["refused"] > 0 and found.total() == 4


def test_no_damaged_file_of_any_format_ends_in_a_traceback(small: Path) -> None:
    found, bad = fuzz(small, 60, seed=1)
    assert not bad
    assert sum(counts["refused"] for counts in found.values()) > 20, found
