"""The house rules as tests: each holds in the whole repository, and each can tell a bad sample from a good one."""

import pytest

from tests.tidy import claims, code, files
from tests.tidy.rule import Rule

each_rule = pytest.mark.parametrize(
    "rule", [*claims.RULES, *code.RULES, *files.RULES], ids=lambda rule: rule.sentence.rstrip(".")
)


@each_rule
def test_the_repository_keeps(rule: Rule):
    broken = [f"{s.path}:{found.line} {found.what}" for s in rule.sources() for found in rule.look(s)]
    assert not broken, "\n".join([rule.sentence, *broken])


@each_rule
def test_a_bad_sample_breaks(rule: Rule):
    assert list(rule.look(rule.bad))


@each_rule
def test_a_good_sample_keeps(rule: Rule):
    assert not list(rule.look(rule.good))


@each_rule
def test_looks_at_files_that_exist(rule: Rule):
    assert next(rule.sources(), None) is not None
