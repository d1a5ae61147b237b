"""A second layer that retries is named before anything is sent: by the app, by doctor and by the recovery table."""

import logging

import pytest

from fencepost import App, DeclarationError, Layer, Run, SyncCall, effect, workflow
from fencepost.cli.doctor import checks
from fencepost.runtime.contracts import recovery_table

SDK = Layer("openai.OpenAI", sends=3, off="OpenAI(max_retries=0)")


@effect(on_unknown="hold", attempt_timeout="5s", clients=[SDK])
def charge(call: SyncCall, order: str) -> None:
    """Sends nothing here."""


@workflow()
async def buy(run: Run, order: str) -> None:
    await run.do(charge(order))


@workflow()
async def buy_again(run: Run, order: str) -> None:
    await run.do(charge(order))


def app_at(place, **options) -> App:
    return App(f"sqlite:///{place / 'ledger.db'}", workflows=[buy], **options)


SAID = "charge: 5 attempts × 3 (openai.OpenAI) = 15 sends per operation at most"


def test_an_app_says_it_when_it_opens_its_ledger(tmp_path, caplog):
    app = app_at(tmp_path)
    with caplog.at_level(logging.WARNING):
        app.sync.start(buy, "1", id="order:1")
        app.register(buy_again)
    assert caplog.text.count(f"{SAID}; switch it off: openai.OpenAI: OpenAI(max_retries=0)") == 1
    app.sync.close()


def test_a_strict_app_refuses_and_has_touched_nothing(tmp_path):
    with pytest.raises(DeclarationError, match="a second layer retries") as refused:
        app_at(tmp_path, strict=True).sync.start(buy, "1", id="order:1")
    assert SAID in refused.value.message
    assert "OpenAI(max_retries=0)" in refused.value.hint
    assert list(tmp_path.iterdir()) == []


def test_doctor_warns_and_finds_a_problem_where_the_app_is_strict(tmp_path):
    for strict, verdict in ((False, "warning"), (True, "problem")):
        found = [check for check in checks(app_at(tmp_path, strict=strict), has_code=True) if check.name == "retries"]
        assert [(check.verdict, check.says) for check in found] == [(verdict, SAID)]


def test_the_recovery_table_multiplies_what_stands_around_every_effect(tmp_path):
    (row,) = recovery_table(app_at(tmp_path, clients=[Layer("tool server", 2, "retries: 0")]))
    assert row.sends == (
        "5 attempts × 2 (tool server) × 3 (openai.OpenAI) = 30 sends per operation at most; "
        "to switch off: tool server: retries: 0; openai.OpenAI: OpenAI(max_retries=0)"
    )


def test_to_a_strict_app_it_is_a_blank_of_the_table_too(tmp_path):
    (row,) = recovery_table(app_at(tmp_path, strict=True))
    assert row.blanks == ("second layer retries (openai.OpenAI: OpenAI(max_retries=0))",)


def test_a_layer_that_never_sends_cannot_be_meant():
    with pytest.raises(DeclarationError, match="sends 0 times"):
        Layer("broker", sends=0, off="its acks")


class Changed:
    """A client of a later version, whose settings are not where one looks."""


Changed.__module__, Changed.__qualname__, Changed.__name__ = "openai._base_client", "BaseClient", "BaseClient"


@effect(on_unknown="hold", attempt_timeout="5s", clients=[Changed()])
def ask(call: SyncCall, order: str) -> None:
    """Sends nothing here."""


@workflow()
async def inquire(run: Run, order: str) -> None:
    await run.do(ask(order))


@pytest.mark.parametrize("strict", [False, True])
def test_a_client_that_cannot_be_read_is_warned_of_and_not_refused(tmp_path, caplog, strict):
    app = App(f"sqlite:///{tmp_path / 'ledger.db'}", workflows=[inquire], strict=strict)
    with caplog.at_level(logging.WARNING):
        app.sync.start(inquire, "1", id="order:1")
    unread = "ask: 5 attempts × no end of (openai.BaseClient, cannot be read)"
    assert f"a second layer may retry: {unread}" in caplog.text
    assert [row.blanks for row in recovery_table(app)] == [()]
    app.sync.close()
    found = [check for check in checks(app, has_code=True) if check.name == "retries"]
    assert [(check.verdict, check.says.startswith(unread)) for check in found] == [("warning", True)]
