"""What the outside can promise: one file per kind of target that compares a token or remembers a key."""
