"""The one door to the outside: it performs, reconciles and compensates effects."""
