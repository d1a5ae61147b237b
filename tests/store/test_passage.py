"""Nothing passes by: each verb of a store is led through the passage, or is known to hold nobody's data."""

import inspect

from fencepost.store.api import Store
from fencepost.store.bulk_port import KeepsBulks
from fencepost.store.governing import Governing
from fencepost.store.passage import AS_THEY_ARE, Passage
from fencepost.store.passage_governing import GoverningPassage
from fencepost.store.texts import FIELDS, LENGTHS
from fencepost.store.transit import Transit

ASKED = {**vars(KeepsBulks), **vars(Governing), **vars(Store)}


def test_every_verb_of_a_store_is_led_through_or_known_to_carry_no_text():
    verbs = {name for name in ASKED if not name.startswith("_")}
    led = {name for name in {**vars(Transit), **vars(GoverningPassage), **vars(Passage)} if not name.startswith("_")}
    assert verbs - led - AS_THEY_ARE == set()
    assert verbs & led & AS_THEY_ARE == set()
    assert verbs >= AS_THEY_ARE


def test_a_verb_is_asked_of_the_passage_as_of_the_store_itself():
    asked = {name: verb for name, verb in ASKED.items() if callable(verb) and not name.startswith("_")}
    led = {name: verb for name in asked if (verb := getattr(Passage, name, None)) is not None}
    for name, verb in led.items():
        if name != "claim":  # handed on as it came
            assert list(inspect.signature(verb).parameters) == list(inspect.signature(asked[name]).parameters), name


def test_every_field_that_is_guarded_is_there():
    for kind, fields in FIELDS.items():
        assert {field.name for field in fields} <= set(kind.__annotations__), kind
    assert all(kind in FIELDS for kind in LENGTHS)
