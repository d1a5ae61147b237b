"""What the outside can promise: one file for each kind of target that compares tokens.

Each class is a `core.fence.Fence` and has besides what a step's body needs to send its token with a write. Nothing here
knows of runs or of the ledger; which token is sent when is decided in `effects.perform`.
"""
