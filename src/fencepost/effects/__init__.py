"""The one door to the outside: it performs, reconciles and compensates effects.

- declared: `declare`, `declared`, `fitting`, `policy`, `answers`, `model`, `rules`, `endpoint`
- led: `perform` and `entry` for effects, `deliberate` and `tally` for other steps, `sending` runs a body once
- at hand in a body: `call`, `http`, `span`, `outside`
- sent: `transport`, `exchange`, `stream`, `wire`, `deadline`, `kernel`, `overdue`
- values and errors: `values`, `sameness`, `culprit`, `failures`, `classifiers`, `question`
"""
