"""The operator's console: what the ledger holds, shown to people and programs, and the verbs over HTTP.

- shown alike on a terminal and over HTTP: `story`, `cancelled`, `printable`
- who calls: `callers`
- the HTTP API: `server`, `api_runs`, `api_watching`, `documents`, `problems`

What may be done, and what is refused, is decided in `runtime`. The HTTP part needs `fencepost[console]`.
"""
