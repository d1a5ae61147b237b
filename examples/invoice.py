"""An approval workflow: an invoice comes in, and one ticket, one mail, one payment and one ledger entry come of it.

Each effect shows another rung of the guarantee ladder: the ticket goes out under a key, the mail and the ledger entry
are looked up when their outcome is unknown, the payment can neither be keyed nor asked about and is left to a person,
cancelling a ticket may be repeated. See what that buys with `fencepost contract examples/invoice.py:app`, and watch it
being killed with `fencepost demo`.

Where the services are comes from the environment, so that importing this file needs none of them:

    INVOICE_LEDGER      the ledger (sqlite:///fencepost.db)
    INVOICE_TASKS       base URL of the task service (http://127.0.0.1:8001)
    INVOICE_BOOKS       base URL of the books, which also pay (http://127.0.0.1:8002)
    INVOICE_MAIL        base URL under which sent mail is found again (http://127.0.0.1:8003)
    INVOICE_SMTP        host:port of the mail server (127.0.0.1:8025)
    INVOICE_LEASE       how long a worker's claim lasts without renewal (15s)

A model is asked where FENCEPOST_MODEL_URL and FENCEPOST_MODEL name one; otherwise local rules classify.
It orders steps and describes targets; how a step is carried out, repeated or recovered is not here but in `fencepost`.
"""

import os
import re
import smtplib
import unicodedata
from email.message import EmailMessage
from email.policy import SMTP
from typing import Literal

from pydantic import BaseModel, ConfigDict

from fencepost import (
    Absent,
    App,
    Approval,
    Call,
    Conflicting,
    Found,
    KeyHeader,
    Question,
    Retry,
    Rule,
    RuleBased,
    Run,
    Stands,
    SyncCall,
    Target,
    compute,
    effect,
    model,
    workflow,
)

# -- values -----------------------------------------------------------------------------------------------------------


class Value(BaseModel):
    """What goes through a door is frozen, and a field that nobody declared is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Document(Value):
    """An invoice as it came: the name of its file and its text."""

    name: str
    text: str


class Invoice(Value):
    """What must be known of an invoice; `total` is in the currency's smallest unit."""

    number: str
    supplier: str
    total: int
    currency: str


class Classification(Value):
    """Which account an invoice belongs to."""

    account: Literal["equipment", "services", "travel", "other"]


class Ticket(Value):
    """A task for whoever approves."""

    id: str


class Made(Value):
    """The id of a payment, an entry, a refund or a reversal."""

    id: str


class Outcome(Value):
    """How the workflow ended; the ids are those of the remote objects."""

    invoice: str
    approved: bool
    ticket: str
    entry: str | None = None


# -- reading and classifying ------------------------------------------------------------------------------------------

NUMBER = re.compile(
    r"(?:invoice number|rechnungsnummer|請求書番号|numéro de facture|número de factura|numer faktury|numero fattura)"
    r"\s*:\s*(?P<value>\S+)",
    re.IGNORECASE,
)
SUPPLIER = re.compile(
    r"(?:supplier|lieferant|発行元|fournisseur|proveedor|sprzedawca|fornitore)\s*:\s*(?P<value>.+)", re.IGNORECASE
)
TOTAL = re.compile(
    r"(?:total due|gesamtbetrag|ご請求金額|total à payer|importe total|do zapłaty|totale)\s*:\s*(?P<value>.+)",
    re.IGNORECASE,
)
AMOUNT = re.compile(r"[£$€¥]?\s?\d{1,3}(?:[ .,]?\d{3})*(?:[.,]\d{2})?\s*(?:EUR|PLN|[£$€¥])?")
CURRENCIES = {"£": "GBP", "$": "USD", "€": "EUR", "¥": "JPY"}


@compute()
def read_invoice(call: SyncCall, document: Document) -> Invoice | None:
    """Read number, supplier and total from the text; None if one of them cannot be read."""
    del call
    text = unicodedata.normalize("NFKC", document.text)  # full-width colons and digits, spaces that do not break
    found = [pattern.search(text) for pattern in (NUMBER, SUPPLIER, TOTAL)]
    number, supplier, total = (match["value"].strip() if match else "" for match in found)
    if not (number and supplier and AMOUNT.fullmatch(total)):
        return None
    sign = next((sign for sign in CURRENCIES if sign in total), None)
    currency = CURRENCIES[sign] if sign else total[-3:]
    return Invoice(number=number, supplier=supplier, total=in_smallest_unit(total, currency), currency=currency)


def in_smallest_unit(amount: str, currency: str) -> int:
    """Return "4,952.00", "2.458,50" or "3 480,00" in the smallest unit of its currency; the yen has no smaller one."""
    digits = int(re.sub(r"\D", "", amount))
    has_decimals = re.search(r"[.,]\d{2}\D*$", amount) is not None
    return digits if has_decimals or currency == "JPY" else digits * 100


@model(output=Classification, format_attempts=3)
async def classify(call: Call, text: str) -> Classification:
    """Choose the account; the answer is validated and stored once, and a restart never asks again."""
    return await call.model.ask("To which account does this invoice belong?", text)


class LocalRules(RuleBased):
    """Keywords in place of a model. The first answer about a handwritten copy is badly formed, as happens to models."""

    def answer(self, question: Question) -> str:
        """Answer in prose at the first attempt for a handwritten copy, else by the rules."""
        if question.attempt == 1 and re.search("handwritten|manuscrita", question.text):
            return "This looks like printing, so I would book it under services."
        return super().answer(question)


RULES = LocalRules(
    [
        Rule("flight|hotel|hôtel|bilety|reise|travel|déplacement", Classification(account="travel")),
        Rule("desk|lamp|server|サーバー|equipment", Classification(account="equipment")),
        Rule("wartung|diseño|servicio|energia|service", Classification(account="services")),
    ],
    otherwise=Classification(account="other"),
)

# -- effects ----------------------------------------------------------------------------------------------------------

# Short, since the world of the demo answers in milliseconds and must be through within a minute. For a real target,
# take its client's time limit, and for settle what its documents say or its operators admit.
WITHIN_MINUTES = Retry(attempts=8, within="5m", first_delay="500ms", longest_delay="10s")
HTTP_TIMEOUT = "2s"
HTTP_SETTLE = "3s"
SMTP_SECONDS = 1.0
MAIL_TIMEOUT = "3s"
MAIL_SETTLE = "5s"
"""smtplib waits up to SMTP_SECONDS for each of the replies to MAIL, RCPT, DATA and the final dot."""


class TicketRequest(Value):
    """What the approver sees."""

    invoice: str
    supplier: str
    amount: str
    account: str

    @classmethod
    def of(cls, invoice: Invoice, kind: Classification) -> "TicketRequest":
        """The request for one invoice."""
        amount = f"{invoice.total} {invoice.currency}"
        return cls(invoice=invoice.number, supplier=invoice.supplier, amount=amount, account=kind.account)


@effect(repeatable=True, attempt_timeout=HTTP_TIMEOUT, retry=WITHIN_MINUTES, target="tasks")
async def cancel_ticket(call: Call, request: TicketRequest, ticket: Ticket | None, reference: str) -> None:
    """Cancel a ticket; one that is cancelled stays so, which is why this may be repeated."""
    del request, ticket
    await call.http.post(f"/tasks/{reference}/cancel", json={})


async def find_ticket(call: Call, request: TicketRequest) -> Found[Ticket] | Absent | Conflicting:
    """Ask the task service for the ticket that was made under the operation's key."""
    del request
    found = await call.http.get("/tasks", params={"external_key": call.key})
    return Found.only(Ticket(id=one["id"]) for one in found.json())


@effect(
    send_key=KeyHeader("Idempotency-Key", window="24h"),
    reconcile=find_ticket,
    reference="id",
    compensate=cancel_ticket,
    retry=WITHIN_MINUTES,
    attempt_timeout=HTTP_TIMEOUT,
    settle=HTTP_SETTLE,
    target="tasks",
)
async def create_ticket(call: Call, request: TicketRequest) -> Ticket:
    """Make a ticket: keyed, since the task service remembers keys for a day."""
    reply = await call.http.post("/tasks", json=request)
    return Ticket(id=reply.json()["id"])


class Message(Value):
    """A mail about an invoice and its ticket."""

    to: str
    subject: str
    text: str

    @classmethod
    def of(cls, invoice: Invoice, ticket: Ticket) -> "Message":
        """Tell the approver that something waits."""
        text = f"{invoice.supplier} asks for {invoice.total} {invoice.currency}. Please decide on {ticket.id}.\n"
        return cls(to="approver@example.com", subject=f"Invoice {invoice.number} waits for approval", text=text)


def message_id(key: str) -> str:
    """The same Message-ID for every attempt of one operation, and for no other operation."""
    return f"<{key[:40]}@invoices.example.com>"


class Sent(Value):
    """A mail that the server has accepted."""

    message_id: str


def find_mail(call: SyncCall, message: Message) -> Found[Sent] | Absent | Conflicting:
    """Search what was sent for the Message-ID."""
    del message
    found = call.http.get("/messages", params={"message_id": message_id(call.key)})
    return Found.only(Sent(message_id=one["message_id"]) for one in found.json())


@effect(
    reconcile=find_mail,
    reference="message_id",
    compensate=Stands("a mail cannot be unsent; the decision is told in another"),
    retry=WITHIN_MINUTES,
    attempt_timeout=MAIL_TIMEOUT,
    settle=MAIL_SETTLE,
    target="mail",
)
def notify(call: SyncCall, message: Message) -> Sent:
    """Send a mail: looked up, since SMTP knows no keys. A plain function, since smtplib blocks; it runs in a thread."""
    mail = EmailMessage(policy=SMTP)
    mail["From"] = "invoices@example.com"
    mail["To"] = message.to
    mail["Subject"] = message.subject
    mail["Message-ID"] = message_id(call.key)
    mail["X-Operation-Key"] = call.key
    mail.set_content(message.text)
    host, _, port = setting("SMTP", "127.0.0.1:8025").rpartition(":")
    with smtplib.SMTP(host, int(port), timeout=SMTP_SECONDS) as smtp:
        smtp.ehlo()
        with call.sending() as guard:
            guard.watch(smtp.sock)
            smtp.send_message(mail)
    return Sent(message_id=mail["Message-ID"])


class Payment(Value):
    """Money to a supplier."""

    invoice: str
    to: str
    amount: int
    currency: str

    @classmethod
    def of(cls, invoice: Invoice) -> "Payment":
        """The payment of one invoice."""
        return cls(invoice=invoice.number, to=invoice.supplier, amount=invoice.total, currency=invoice.currency)


@effect(
    on_unknown="hold",
    financial=True,
    reference="id",
    compensate=Stands("what is refunded too much is settled with the bank"),
    retry=WITHIN_MINUTES,
    attempt_timeout=HTTP_TIMEOUT,
    settle=HTTP_SETTLE,
    target="books",
)
async def refund(call: Call, payment: Payment, paid: Made | None, reference: str) -> Made:
    """Take a payment back; a second refund would be a second refund."""
    del paid
    reply = await call.http.post(f"/payments/{reference}/refund", json={"invoice": payment.invoice})
    return Made(id=reply.json()["id"])


@effect(
    on_unknown="hold",
    financial=True,
    reference="id",
    compensate=refund,
    retry=WITHIN_MINUTES,
    attempt_timeout=HTTP_TIMEOUT,
    settle=HTTP_SETTLE,
    target="books",
)
async def pay(call: Call, payment: Payment) -> Made:
    """Pay: held, since this bank knows no keys and cannot be asked. A person looks at the statement and says."""
    reply = await call.http.post("/payments", json=payment)
    return Made(id=reply.json()["id"])


class Posting(Value):
    """A ledger entry."""

    invoice: str
    account: str
    amount: int
    currency: str

    @classmethod
    def of(cls, invoice: Invoice, kind: Classification) -> "Posting":
        """The entry of one invoice."""
        return cls(invoice=invoice.number, account=kind.account, amount=invoice.total, currency=invoice.currency)


async def find_reversal(
    call: Call, posting: Posting, entry: Made | None, reference: str
) -> Found[Made] | Absent | Conflicting:
    """Ask the books for the reversal of this entry."""
    del posting, entry
    found = await call.http.get("/reversals", params={"of": reference})
    return Found.only(Made(id=one["id"]) for one in found.json())


@effect(
    reconcile=find_reversal,
    reference="id",
    retry=WITHIN_MINUTES,
    attempt_timeout=HTTP_TIMEOUT,
    settle=HTTP_SETTLE,
    target="books",
)
async def reverse_entry(call: Call, posting: Posting, entry: Made | None, reference: str) -> Made:
    """Reverse an entry: looked up, since a second reversal would be a second one."""
    del entry
    reply = await call.http.post(f"/entries/{reference}/reverse", json={"invoice": posting.invoice})
    return Made(id=reply.json()["id"])


async def find_entry(call: Call, posting: Posting) -> Found[Made] | Absent | Conflicting:
    """Ask the books for the entry that carries the operation's key as its external reference."""
    del posting
    found = await call.http.get("/entries", params={"external_key": call.key})
    return Found.only(Made(id=one["id"]) for one in found.json())


@effect(
    reconcile=find_entry,
    financial=True,
    reference="id",
    compensate=reverse_entry,
    retry=WITHIN_MINUTES,
    attempt_timeout=HTTP_TIMEOUT,
    settle=HTTP_SETTLE,
    target="books",
)
async def post_entry(call: Call, posting: Posting) -> Made:
    """Post an entry: looked up, since the books keep a reference with each entry but compare none."""
    reply = await call.http.post("/entries", json={**posting.model_dump(), "external_key": call.key})
    return Made(id=reply.json()["id"])


# -- the workflow -----------------------------------------------------------------------------------------------------


@workflow(version=1)
async def approve_invoice(run: Run, document: Document) -> Outcome:
    """From the document to the entry; what cannot be read is asked of a clerk, what is rejected is compensated."""
    invoice = await run.do(read_invoice(document))
    if invoice is None:
        invoice = await run.wait("correction", Invoice, within="7d")
    kind = await run.do(classify(document.text))
    ticket = await run.do(create_ticket(TicketRequest.of(invoice, kind)))
    await run.do(notify(Message.of(invoice, ticket)))
    payment = pay(Payment.of(invoice))
    decision = await run.wait("decision", Approval, allows=payment, within="7d")
    if not decision.approved:
        await run.compensate(reason=decision.comment)
        return Outcome(invoice=invoice.number, approved=False, ticket=ticket.id)
    await run.do(payment, approval=decision)
    entry = await run.do(post_entry(Posting.of(invoice, kind)))
    return Outcome(invoice=invoice.number, approved=True, ticket=ticket.id, entry=entry.id)


def setting(name: str, default: str) -> str:
    """Return INVOICE_<name> from the environment."""
    return os.environ.get(f"INVOICE_{name}", default)


app = App(
    setting("LEDGER", "sqlite:///fencepost.db"),
    workflows=[approve_invoice],
    targets={
        "tasks": Target(setting("TASKS", "http://127.0.0.1:8001")),
        "books": Target(setting("BOOKS", "http://127.0.0.1:8002")),
        "mail": Target(setting("MAIL", "http://127.0.0.1:8003")),
    },
    model=RULES,
    lease=setting("LEASE", "15s"),
    margin="500ms",
)
