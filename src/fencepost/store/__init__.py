"""The room that remembers: the ledger's tables, and the journal that commits to them.

- what can be asked: `api`; who commits: `journal`
- SQLite: `open`, `migrate`, `sqlite`, `batch`, `rows`, `queries` over `sql/`, `connection`, `transaction`, `failures`
- beside: `chain` (audit rows by hash), `faultpoints` (where tests kill)
"""
