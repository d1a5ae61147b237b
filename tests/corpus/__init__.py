"""Histories that each version has stored, and the workflows that they are replayed against from then on."""
