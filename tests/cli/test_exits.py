"""Exit codes are one table: complete, printed by --help, and reached from every branch of errors."""

import pytest

from fencepost.cli.exits import MEANINGS, Exit, Usage, as_text, exit_of
from fencepost.core import errors


def test_every_code_has_a_meaning_and_help_prints_each(fencepost):
    assert set(MEANINGS) == set(Exit)
    printed = fencepost("--help")
    assert printed.code == 0
    for line in as_text().splitlines():
        assert line.strip() in printed.out


def test_usage_is_two_and_findings_start_at_three():
    assert Exit.USAGE == 2
    assert Exit.FINDINGS == 3


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Usage("x"), Exit.USAGE),
        (errors.ValueRefused("x"), Exit.USAGE),
        (errors.DeclarationError("x"), Exit.FINDINGS),
        (errors.VerbRefused("x"), Exit.REFUSED),
        (errors.RunNotFound("x"), Exit.REFUSED),
        (errors.RunFailed("x"), Exit.REFUSED),
        (errors.NotOwner("x"), Exit.REFUSED),
        (errors.RunHeld("x"), Exit.HELD),
        (errors.StoreBusy("x"), Exit.LEDGER),
        (errors.StoreFailed("x"), Exit.LEDGER),
        (errors.ForeignDatabase("x"), Exit.LEDGER),
        (ZeroDivisionError("x"), Exit.BUG),
    ],
)
def test_an_error_has_the_code_of_who_must_act(error, code):
    assert exit_of(error) is code
