"""The room that remembers: the ledger's tables, and the journal that commits to them."""
