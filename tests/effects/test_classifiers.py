"""What the errors of real client libraries, raised by real sockets, prove: first of all, whether a byte left."""

import contextlib
import http.client
import smtplib
import socket
import ssl
import subprocess
import sys
import threading
import urllib.error
from collections.abc import Callable, Iterator
from email.utils import formatdate

import httpx2
import pytest
import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.auth import HTTPDigestAuth

from fencepost.core.classify import Reading
from fencepost.core.contract import DEFINITE_STATUSES, Contract
from fencepost.core.duration import SECOND
from fencepost.core.states import Outcome
from fencepost.effects.classifiers import read_client_error
from tests.effects.peer import Peer, peer, read_request, reply, server_tls

CONTRACT = Contract("charge")
NOW = 1_790_000_000 * SECOND
NOTHING_LEFT = Reading(Outcome.NOT_APPLIED, retryable=True)
REFUSED_FOR_GOOD = Reading(Outcome.NOT_APPLIED, retryable=False)
UNRESOLVED = Reading(Outcome.UNRESOLVED, retryable=True)


def read(error: BaseException, contract: Contract = CONTRACT) -> Reading | None:
    return read_client_error(error, contract, now=NOW)


def error_of(send: Callable[[], object]) -> BaseException:
    """What `send` raises, as a body would let it through."""
    try:
        send()
    except Exception as error:  # noqa: BLE001 - each library has its own
        return error
    pytest.fail("the send was expected to raise")


# -- clients, each sending one POST and raising for a refusal ---------------------------------------------------------


def with_requests(url: str) -> None:
    requests.post(url, data=b"x", timeout=0.3).raise_for_status()


def with_requests_session(url: str) -> None:
    with requests.Session() as session:
        session.post(url, data=b"x", timeout=0.3).raise_for_status()


def with_httpx2(url: str) -> None:
    httpx2.post(url, content=b"x", timeout=0.3, trust_env=False).raise_for_status()


def with_urllib3(url: str) -> None:
    with urllib3.PoolManager(timeout=0.3) as pool:
        pool.request("POST", url, body=b"x")


def with_urllib3_without_retries(url: str) -> None:
    with urllib3.PoolManager(timeout=0.3, retries=False) as pool:
        pool.request("POST", url, body=b"x")


CLIENTS = [with_requests, with_requests_session, with_httpx2, with_urllib3, with_urllib3_without_retries]
JUDGING_CLIENTS = [with_requests, with_requests_session, with_httpx2]  # those that raise for a status

each_client = pytest.mark.parametrize("send", CLIENTS)
each_judging_client = pytest.mark.parametrize("send", JUDGING_CLIENTS)


@pytest.fixture
def target() -> Iterator[Peer]:
    with peer(holds=65536) as it:
        yield it


@pytest.fixture
def refusing() -> Iterator[str]:
    """The address of a port that is taken, but not listened to."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/"


@pytest.fixture
def deaf() -> Iterator[str]:
    """The address of a listener whose queue is full, so that a connect is not answered."""
    with contextlib.ExitStack() as opened:
        listener = opened.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            waiting = opened.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"


def no_such_name(*_: object, **__: object) -> object:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def answering(text: bytes) -> Callable[[socket.socket], None]:
    def answer(connection: socket.socket) -> None:
        while read_request(connection):
            connection.sendall(text)

    return answer


def hanging_up(connection: socket.socket) -> None:
    read_request(connection)
    connection.close()


def answer_once(target: Peer, text: bytes) -> None:
    """Answer one request, in a thread, and refuse every connection from then on."""

    def once() -> None:
        connection = target.accept()
        read_request(connection)
        target._listener.close()
        connection.sendall(text)
        connection.close()

    threading.Thread(target=once, daemon=True).start()


def silent(connection: socket.socket) -> None:
    read_request(connection)
    connection.recv(1)


# -- HTTP clients: nothing left ---------------------------------------------------------------------------------------


@each_client
def test_a_refused_connection_proves_that_nothing_left(send, refusing):
    assert read(error_of(lambda: send(refusing))) == NOTHING_LEFT


@each_client
def test_a_connect_that_times_out_proves_that_nothing_left(send, deaf):
    assert read(error_of(lambda: send(deaf))) == NOTHING_LEFT


@each_client
def test_a_name_that_is_not_found_proves_that_nothing_left(send, monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", no_such_name)
    assert read(error_of(lambda: send("http://tickets.example/"))) == NOTHING_LEFT


@each_client
def test_a_certificate_that_we_refuse_proves_that_nothing_left(send, target):
    context = server_tls()

    def shake_hands(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            context.wrap_socket(connection, server_side=True).close()

    target.serve(shake_hands)
    assert read(error_of(lambda: send(target.url.replace("http:", "https:")))) == NOTHING_LEFT


@pytest.mark.parametrize("send", JUDGING_CLIENTS)
def test_an_address_that_cannot_be_used_is_refused_for_good(send):
    assert read(error_of(lambda: send("gopher://127.0.0.1/"))) == REFUSED_FOR_GOOD


def test_a_proxy_that_cannot_be_reached_proves_that_nothing_left(refusing):
    proxies = {"http": refusing}
    error = error_of(lambda: requests.post("http://tickets.example/", data=b"x", proxies=proxies, timeout=5))
    assert isinstance(error, requests.exceptions.ProxyError)
    assert read(error) == NOTHING_LEFT


# -- HTTP clients: unresolved -----------------------------------------------------------------------------------------


@each_client
def test_a_reply_that_does_not_come_leaves_it_unresolved(send, target):
    target.serve(silent)
    assert read(error_of(lambda: send(target.url))) == UNRESOLVED


@each_client
def test_a_connection_that_ends_without_a_reply_leaves_it_unresolved(send, target):
    target.serve(hanging_up)
    assert read(error_of(lambda: send(target.url))) == UNRESOLVED


def test_a_redirect_to_a_place_that_refuses_leaves_it_unresolved(target, refusing):
    """The first request was received and answered; only the second one never left."""
    target.serve(answering(f"HTTP/1.1 307 Elsewhere\r\nlocation: {refusing}\r\ncontent-length: 0\r\n\r\n".encode()))
    for send in (
        lambda: requests.post(target.url, data=b"x", timeout=5),
        lambda: httpx2.post(target.url, content=b"x", timeout=5, follow_redirects=True, trust_env=False),
        lambda: urllib3.request("POST", target.url, body=b"x", timeout=5),
    ):
        assert read(error_of(send)) == UNRESOLVED


def test_a_refusal_at_the_end_of_a_redirect_leaves_it_unresolved(target):
    """A created order redirects to its page, and the page is missing: the order stands."""

    def answer(connection: socket.socket) -> None:
        while request := read_request(connection):
            created = request.startswith(b"POST")
            head = "303 See Other\r\nlocation: /orders/1" if created else "404 Not Found"
            connection.sendall(f"HTTP/1.1 {head}\r\ncontent-length: 0\r\n\r\n".encode())

    target.serve(answer)
    for send in (
        lambda: requests.post(target.url, data=b"x", timeout=5).raise_for_status(),
        lambda: httpx2.post(target.url, content=b"x", follow_redirects=True, trust_env=False).raise_for_status(),
    ):
        assert read(error_of(send)) == UNRESOLVED


@pytest.mark.parametrize("reconnects", [True, False])
def test_a_client_that_retried_by_itself_leaves_it_unresolved(target, reconnects):
    """The first try was received; that the second was refused a connection says nothing of it."""
    answer_once(target, b"")
    retries = urllib3.Retry(total=1 if reconnects else 5, connect=None if reconnects else False, redirect=0)
    with requests.Session() as session:
        session.mount("http://", HTTPAdapter(max_retries=retries))
        error = error_of(lambda: session.put(target.url, data=b"x", timeout=5))
    assert "refused" in str(error)
    assert read(error) == UNRESOLVED


def test_an_authentication_round_that_is_refused_a_connection_leaves_it_unresolved(target):
    challenge = b'www-authenticate: Digest realm="r", nonce="n", qop="auth"\r\nconnection: close'
    answer_once(target, b"HTTP/1.1 401 Who?\r\n" + challenge + b"\r\ncontent-length: 0\r\n\r\n")
    error = error_of(lambda: requests.post(target.url, data=b"x", auth=HTTPDigestAuth("a", "b"), timeout=5))
    assert "refused" in str(error)
    assert read(error) == UNRESOLVED


@each_client
def test_an_error_without_its_traceback_proves_nothing(send, refusing):
    error = error_of(lambda: send(refusing))
    inner = error.args[0] if error.args else None
    for each in (error, inner):
        if isinstance(each, BaseException):
            each.__traceback__ = None
    assert read(error) == UNRESOLVED


# -- HTTP clients: statuses -------------------------------------------------------------------------------------------


@each_judging_client
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("400 Bad", REFUSED_FOR_GOOD),
        ("401 Who", REFUSED_FOR_GOOD),
        ("409 Conflict", UNRESOLVED),
        ("429 Slow", NOTHING_LEFT),
        ("500 Oops", UNRESOLVED),
        ("503 Later", UNRESOLVED),
    ],
)
def test_a_status_proves_what_the_contract_counts(send, target, status, expected):
    target.serve(answering(reply(status=status)))
    assert read(error_of(lambda: send(target.url))) == expected


@each_judging_client
def test_a_contract_may_count_a_status_as_a_refusal(send, target):
    target.serve(answering(reply(status="503 Later")))
    counts = Contract("charge", definite=DEFINITE_STATUSES | {503})
    assert read(error_of(lambda: send(target.url)), counts) == NOTHING_LEFT


@each_judging_client
@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("30", 30 * SECOND),
        (formatdate((NOW + 40 * SECOND) / SECOND, usegmt=True), 40 * SECOND),
        (formatdate((NOW - 40 * SECOND) / SECOND, usegmt=True), 0),
        ("-1", None),
        ("soon", None),
    ],
)
def test_the_pause_that_a_target_asks_for_is_kept(send, target, header, expected):
    target.serve(answering(f"HTTP/1.1 429 Slow\r\nRetry-After: {header}\r\ncontent-length: 0\r\n\r\n".encode()))
    found = read(error_of(lambda: send(target.url)))
    assert found == Reading(Outcome.NOT_APPLIED, retryable=True, retry_after=expected)


def test_an_accepted_request_whose_body_was_unreadable_stays_unresolved(target):
    target.serve(answering(reply(b"<html>")))
    error = error_of(lambda: requests.post(target.url, data=b"x", timeout=5).json())
    assert read(error) == UNRESOLVED


def test_an_error_built_by_hand_proves_nothing():
    for error in (
        requests.HTTPError("500"),
        requests.HTTPError(response="no response"),
        requests.ConnectionError(),
        requests.ConnectionError(urllib3.exceptions.NewConnectionError(None, "refused")),
        httpx2.ConnectError("refused"),
        httpx2.HTTPStatusError("200", request=None, response=httpx2.Response(200)),
    ):
        assert read(error) == UNRESOLVED


# -- sockets ----------------------------------------------------------------------------------------------------------


def port_of(url: str) -> int:
    return int(url.split(":")[2].partition("/")[0])


def test_bare_sockets_say_what_their_class_says(refusing, deaf, target, monkeypatch):
    assert read(error_of(lambda: socket.create_connection(("127.0.0.1", port_of(refusing)), 5))) == NOTHING_LEFT
    # The class is the same as for a reply that does not come.
    assert read(error_of(lambda: socket.create_connection(("127.0.0.1", port_of(deaf)), 0.1))) == UNRESOLVED
    target.serve(hanging_up)
    connection = http.client.HTTPConnection("127.0.0.1", port_of(target.url), timeout=5)
    connection.request("POST", "/", b"x")
    assert read(error_of(connection.getresponse)) == UNRESOLVED
    connection.close()
    monkeypatch.setattr(socket, "getaddrinfo", no_such_name)
    assert read(error_of(lambda: socket.create_connection(("tickets.example", 80)))) == NOTHING_LEFT


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionResetError(), UNRESOLVED),
        (BrokenPipeError(), UNRESOLVED),
        (ConnectionAbortedError(), UNRESOLVED),
        (TimeoutError(), UNRESOLVED),
        (OSError(113, "No route to host"), UNRESOLVED),
        (ssl.SSLEOFError(), UNRESOLVED),
        (ssl.SSLError(), UNRESOLVED),
        (FileNotFoundError(2, "attachment.pdf"), None),
        (OSError(), None),
        (urllib.error.URLError(ConnectionRefusedError()), None),
        (ValueError(), None),
        (KeyboardInterrupt(), None),
    ],
)
def test_other_classes(error, expected):
    assert read(error) == expected


def test_an_error_raised_from_a_clients_error_is_not_recognised(refusing):
    def body() -> None:
        try:
            with_requests(refusing)
        except requests.ConnectionError as error:
            raise RuntimeError("billing is down") from error

    assert read(error_of(body)) is None


def test_somebody_elses_subclass_is_not_recognised():
    class Declined(requests.ConnectionError):
        """Raised after the card was charged, for all we know."""

    class Gone(ConnectionRefusedError):
        """Likewise."""

    class Strange(Exception):
        __module__ = None

    assert [read(error) for error in (Declined(), Gone(), Strange())] == [None, None, None]


# -- smtplib ----------------------------------------------------------------------------------------------------------


def speaking(**answers: str) -> Callable[[socket.socket], None]:
    """An SMTP server with these answers by command ("hello", "quit", ...); an empty one: it hangs up instead."""
    lines = {
        "greeting": "220 hi",
        "ehlo": "250-hi\r\n250 AUTH PLAIN",
        "data": "354 go",
        "end": "250 ok",
        "quit": "221 bye",
    } | answers

    def answer(connection: socket.socket) -> None:
        file = connection.makefile("rb")
        command = "greeting"
        while line := lines.get(command, "250 ok"):
            connection.sendall(f"{line}\r\n".encode())
            if command == "data" and line.startswith("354"):
                while file.readline() not in {b".\r\n", b""}:
                    pass
                command = "end"
            else:
                command = file.readline().decode().partition(" ")[0].strip().lower()
        connection.shutdown(socket.SHUT_RDWR)

    return answer


def mail(target: Peer, *, login: bool = False, recipients: int = 1) -> None:
    with smtplib.SMTP("127.0.0.1", port_of(target.url), timeout=5) as client:
        if login:
            client.login("user", "secret")
        client.sendmail("a@shop.example", [f"b{n}@shop.example" for n in range(recipients)], b"subject: hi\r\n\r\nhi")


@pytest.mark.parametrize(
    ("answers", "kind", "expected"),
    [
        ({"greeting": "554 no"}, "SMTPConnectError", REFUSED_FOR_GOOD),
        ({"greeting": "421 later"}, "SMTPConnectError", NOTHING_LEFT),
        ({"ehlo": "502 no", "helo": "550 no"}, "SMTPHeloError", REFUSED_FOR_GOOD),
        ({"mail": "550 no"}, "SMTPSenderRefused", REFUSED_FOR_GOOD),
        ({"mail": "451 later"}, "SMTPSenderRefused", NOTHING_LEFT),
        ({"rcpt": "550 no"}, "SMTPRecipientsRefused", REFUSED_FOR_GOOD),
        ({"rcpt": "450 greylisted"}, "SMTPRecipientsRefused", NOTHING_LEFT),
        ({"data": "451 later"}, "SMTPDataError", NOTHING_LEFT),
        ({"end": "554 spam"}, "SMTPDataError", REFUSED_FOR_GOOD),
        ({"end": "452 full"}, "SMTPDataError", NOTHING_LEFT),
        ({"end": "gibberish"}, "SMTPDataError", UNRESOLVED),
        ({"end": ""}, "SMTPServerDisconnected", UNRESOLVED),
        ({"mail": ""}, "SMTPServerDisconnected", UNRESOLVED),
        ({"quit": "500 what"}, "SMTPResponseException", UNRESOLVED),  # the mail was accepted before
    ],
)
def test_smtplib_refusals_are_proof_and_lost_connections_are_not(target, answers, kind, expected):
    target.serve(speaking(**answers))
    error = error_of(lambda: mail(target))
    assert type(error).__name__ == kind
    assert read(error) == expected


@pytest.mark.parametrize(("answer", "expected"), [("535 no", REFUSED_FOR_GOOD), ("454 later", NOTHING_LEFT)])
def test_smtplib_authentication(target, answer, expected):
    target.serve(speaking(auth=answer))
    error = error_of(lambda: mail(target, login=True))
    assert isinstance(error, smtplib.SMTPAuthenticationError)
    assert read(error) == expected


def test_smtplib_knows_that_the_server_cannot_do_it(target):
    target.serve(speaking(ehlo="250 hi"))
    error = error_of(lambda: mail(target, login=True))
    assert isinstance(error, smtplib.SMTPNotSupportedError)
    assert read(error) == REFUSED_FOR_GOOD


def test_one_recipient_who_may_be_taken_later_is_worth_another_attempt():
    error = smtplib.SMTPRecipientsRefused({"a@x.example": (550, b"no"), "b@x.example": (450, b"later")})
    assert read(error) == NOTHING_LEFT


def test_smtplib_without_a_server(refusing):
    assert read(error_of(lambda: smtplib.SMTP("127.0.0.1", port_of(refusing), timeout=5))) == NOTHING_LEFT


# -- nothing is imported ----------------------------------------------------------------------------------------------


def test_reading_an_error_imports_no_client_library():
    program = (
        "import sys\n"
        "from fencepost.core.contract import Contract\n"
        "from fencepost.effects.classifiers import read_client_error\n"
        "assert read_client_error(ConnectionRefusedError(), Contract('charge'), now=0) is not None\n"
        "assert read_client_error(ValueError(), Contract('charge'), now=0) is None\n"
        "print(*{'requests', 'urllib3', 'httpx', 'smtplib'} & set(sys.modules))\n"  # httpx2 is our own
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == ""
