"""The receiving side: an endpoint that does a request once, however often its sender must send it."""

from fencepost.receiving.answer import Answer
from fencepost.receiving.asgi import IdempotentASGI
from fencepost.receiving.receipt import Receipt, receipt
from fencepost.receiving.receipts import Receipts, Unsettled
from fencepost.receiving.request import Request
from fencepost.receiving.terms import NotDone, Terms
from fencepost.receiving.wsgi import IdempotentWSGI

__all__ = [
    "Answer",
    "IdempotentASGI",
    "IdempotentWSGI",
    "NotDone",
    "Receipt",
    "Receipts",
    "Request",
    "Terms",
    "Unsettled",
    "receipt",
]
