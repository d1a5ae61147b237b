"""The receiving side: endpoints that do a request once, and those for reports on jobs and for providers' events."""

from fencepost.receiving.answer import Answer
from fencepost.receiving.asgi import IdempotentASGI
from fencepost.receiving.callbacks import CallbackEndpoint
from fencepost.receiving.receipt import Receipt, receipt
from fencepost.receiving.receipts import Receipts, Unsettled
from fencepost.receiving.request import Request
from fencepost.receiving.terms import NotDone, Terms
from fencepost.receiving.webhooks import Event, WebhookEndpoint
from fencepost.receiving.wsgi import IdempotentWSGI

__all__ = [
    "Answer",
    "CallbackEndpoint",
    "Event",
    "IdempotentASGI",
    "IdempotentWSGI",
    "NotDone",
    "Receipt",
    "Receipts",
    "Request",
    "Terms",
    "Unsettled",
    "WebhookEndpoint",
    "receipt",
]
