"""A ledger on PostgreSQL under load, whose server crashes, whose commits lose their answers, whose workers are killed.

`make chaos SECONDS=60` runs it; what is counted is what the world holds.
"""
