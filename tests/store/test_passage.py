"""Nothing passes by: each verb of a store is led through the passage, or is known to hold nobody's data."""

from fencepost.store.api import Store
from fencepost.store.passage import AS_THEY_ARE, Passage
from fencepost.store.texts import FIELDS, LENGTHS
from fencepost.store.transit import Transit


def test_every_verb_of_a_store_is_led_through_or_known_to_carry_no_text():
    verbs = {name for name in vars(Store) if not name.startswith("_")}
    led = {name for name in {**vars(Transit), **vars(Passage)} if not name.startswith("_")}
    assert verbs - led - AS_THEY_ARE == set()
    assert verbs & led & AS_THEY_ARE == set()
    assert verbs >= AS_THEY_ARE


def test_every_field_that_is_guarded_is_there():
    for kind, fields in FIELDS.items():
        assert {field.name for field in fields} <= set(kind.__annotations__), kind
    assert all(kind in FIELDS for kind in LENGTHS)
