"""Measures what a durable step costs, beside the machine's own limits and two peers (`python -m bench --help`).

Each contestant runs in a child process of its own and prints lines of JSON; `frame` orders the children, `table` reads
the lines. Nothing here judges whether a step is correct: that is the work of the tests.
"""
