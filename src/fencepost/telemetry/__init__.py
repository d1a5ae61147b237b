"""Shows the outside what runs do and how workers fare: trees of traces, metrics, log lines, health.

It reads what the ledger and the process hold and changes nothing. The trace itself is made in `core.trace`, what a
person is called for in `core.alerts`.
"""
