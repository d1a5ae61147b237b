"""The world's mail server, spoken to by smtplib and by hand, and its look-up over HTTP."""

import smtplib
import socket
from email.message import EmailMessage

import pytest

from fencepost.core.errors import Misuse
from fencepost.testing.world import Fault, LookUp
from tests.polling import until


@pytest.fixture
def server(world):
    with smtplib.SMTP(world.mail.host, world.mail.port, timeout=10) as server:
        yield server


def message(key="op-1", text="Hallo\n"):
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "a@example.org", "b@example.org", "Rechnung für März 請求書"
    mail["Message-ID"], mail["X-Operation-Key"] = f"<{key}@example.org>", key
    mail.set_content(text)
    return mail


def found(client, world, **query):
    return client.get(world.mail.url + "/messages", params=query).raise_for_status().json()


def counted(world):
    seen = world.counts()["messages"]
    return seen.requests, seen.objects


def test_a_mail_is_kept_with_its_headers_and_found_by_message_id_and_operation_key(world, client, server):
    assert server.send_message(message()) == {}
    [by_id] = found(client, world, message_id="<op-1@example.org>")
    [by_key] = found(client, world, external_key="op-1")
    assert by_id == by_key
    assert (by_id["from"], by_id["to"]) == ("a@example.org", ["b@example.org"])
    assert by_id["subject"] == "Rechnung für März 請求書"
    assert ["X-Operation-Key", "op-1"] in by_id["headers"]
    assert found(client, world, message_id="<other>") == []
    assert counted(world) == (1, 1)


def test_lines_that_begin_with_a_dot_arrive_as_they_were_written(world, client, server):
    text = ".\n..\n.a\n" + "long " * 3000 + "\n.\nend\n"
    server.sendmail("a@example.org", ["b@example.org", "c@example.org"], "Subject: x\n\n" + text)
    server.sendmail("a@example.org", ["b@example.org"], "Subject: y\n\nsecond\n")
    first, second = found(client, world)
    assert first["raw"].partition("\r\n\r\n")[2] == text.replace("\n", "\r\n")
    assert first["to"] == ["b@example.org", "c@example.org"]
    assert second["subject"] == "y"


def test_a_mail_sent_twice_is_kept_twice_and_shows_as_a_duplicate(world, server):
    for _ in range(2):
        server.send_message(message())
    seen = world.counts()["messages"]
    assert (seen.objects, seen.duplicates, seen.bodies_per_key) == (2, 1, {"op-1": 1})


def test_the_look_up_of_mail_may_lag(world, client, server):
    world.configure("mail", look_up=LookUp(lag_lookups=1))
    server.send_message(message())
    assert [len(found(client, world, external_key="op-1")) for _ in range(3)] == [0, 1, 1]


def test_commands_out_of_order_are_refused_and_the_conversation_goes_on(server):
    assert server.docmd("MAIL", "FROM:<a@example.org>")[0] == 503
    assert server.helo()[0] == 250
    assert server.ehlo()[0] == 250
    assert server.has_extn("smtputf8")
    assert server.docmd("RCPT", "TO:<b@example.org>")[0] == 503
    assert server.docmd("DATA")[0] == 503
    assert server.docmd("MAIL", "a@example.org")[0] == 501
    assert server.docmd("MAIL", "FROM:<>")[0] == 250
    assert server.docmd("MAIL", "FROM:<a@example.org>")[0] == 503
    assert server.docmd("RCPT", "TO:<>")[0] == 501
    assert server.rset()[0] == 250
    assert server.noop()[0] == 250
    assert server.verify("a")[0] == 252
    assert server.docmd("WHAT")[0] == 500
    assert server.quit()[0] == 221


def test_a_message_ends_at_a_dot_between_two_crlfs_and_nowhere_else(world, client):
    with socket.create_connection((world.mail.host, world.mail.port), timeout=10) as connection:
        connection.sendall(
            b"EHLO x\r\nMAIL FROM:<a@x>\r\nRCPT TO:<b@x>\r\nDATA\r\n"
            b"Subject: z\r\n\r\nx\n.\nMAIL FROM:<evil@x>\n\r\n.\r\nQUIT\r\n"
        )
        with connection.makefile("rb") as said:
            assert said.read().splitlines()[-1].startswith(b"221")
    [kept] = found(client, world)
    assert "evil" in kept["raw"]


def test_a_mail_committed_before_a_reset_is_kept_though_nobody_heard_250(world, server):
    world.configure("mail", faults=[Fault(do="reset", when="after")])
    with pytest.raises((smtplib.SMTPServerDisconnected, ConnectionResetError)):
        server.send_message(message())
    assert counted(world) == (1, 1)


@pytest.mark.parametrize("do", ["reset", "half-close"])
def test_a_mail_dropped_before_it_was_kept_has_no_effect(world, server, do):
    world.configure("mail", faults=[Fault(do=do, when="before")])
    with pytest.raises((smtplib.SMTPServerDisconnected, ConnectionResetError)):
        server.send_message(message())
    assert counted(world) == (1, 0)


@pytest.mark.parametrize("status", [451, 550])
def test_a_message_is_refused_after_data_without_effect_then_accepted(world, server, status):
    world.configure("mail", faults=[Fault(do="answer", status=status, text="not now")])
    with pytest.raises(smtplib.SMTPDataError) as refused:
        server.send_message(message())
    assert (refused.value.smtp_code, refused.value.smtp_error) == (status, b"not now")
    server.send_message(message())
    seen = world.counts()["messages"]
    assert (seen.requests, seen.objects, seen.refusals) == (2, 1, {status: 1})


def test_sender_recipient_and_greeting_can_be_refused_before_any_message(world, server):
    world.configure("mail", faults=[Fault(do="answer", method="MAIL", status=451)])
    with pytest.raises(smtplib.SMTPSenderRefused):
        server.send_message(message())
    world.configure("mail", faults=[Fault(do="answer", method="RCPT", path="b@*", status=550)])
    with pytest.raises(smtplib.SMTPRecipientsRefused):
        server.send_message(message())
    world.configure("mail", faults=[Fault(do="answer", method="CONNECT", status=421)])
    with pytest.raises(smtplib.SMTPConnectError):
        smtplib.SMTP(world.mail.host, world.mail.port, timeout=10)
    seen = world.counts()["messages"]
    assert (seen.requests, seen.refusals) == (0, {451: 1, 550: 1, 421: 1})


def test_a_delayed_250_leaves_the_mail_behind_when_the_client_gives_up(world):
    world.configure("mail", faults=[Fault(do="wait", when="after", hold=True, name="h")])
    gave_up = pytest.raises(smtplib.SMTPServerDisconnected, match="timed out")
    with smtplib.SMTP(world.mail.host, world.mail.port, timeout=0.3) as server, gave_up:
        server.send_message(message())
    world.until_waiting("h")
    assert counted(world) == (1, 1)
    assert world.release("h") == 1


def test_a_garbled_250_is_counted_as_kept(world, server):
    world.configure("mail", faults=[Fault(do="malformed", text="???")])
    with pytest.raises(smtplib.SMTPException):
        server.send_message(message())
    assert counted(world) == (1, 1)


def test_a_client_that_goes_away_within_its_message_is_counted_as_broken(world):
    with socket.create_connection((world.mail.host, world.mail.port)) as connection:
        connection.sendall(b"EHLO x\r\nMAIL FROM:<a@x>\r\nRCPT TO:<b@x>\r\nDATA\r\nSubject: z\r\n\r\nhalf")
        connection.shutdown(socket.SHUT_WR)
        until(lambda: world.counts()["messages"].broken == 1, "the broken message to be counted")
    assert counted(world) == (0, 0)


def test_what_mail_cannot_do_is_refused(world):
    with pytest.raises(Misuse, match="mail cannot do"):
        world.configure("mail", faults=[Fault(do="huge")])
