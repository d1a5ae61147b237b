"""The text that we write by hand is what Prometheus's own reader reads."""

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from fencepost.core.histogram import Histogram
from fencepost.telemetry.exposition import Family, text_of

HOSTILE = 'a "quote", a \\ and\na line, \\n and é 日本\u202e'


def read(text):
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_hostile_labels_and_helps_are_read_back_as_they_were():
    [family] = read(text_of([Family("f", "gauge", HOSTILE, [({"reason": HOSTILE}, 2)])])).values()
    assert family.documentation == HOSTILE
    assert [(one.labels, one.value) for one in family.samples] == [({"reason": HOSTILE}, 2)]


def test_a_text_that_is_no_unicode_hides_no_other_sample():
    text = text_of([Family("f", "gauge", "", [({"reason": "\ud800"}, 1), ({"reason": "b"}, 2)])])
    assert [one.value for one in read(text)["f"].samples] == [1, 2]


def test_counters_and_histograms_are_what_they_are_said_to_be():
    sizes = Histogram((1, 2.5))
    for value in (1, 2, 9):
        sizes.take(value)
    families = [Family("c", "counter", "", [({}, 3)]), Family("h", "histogram", "", [({"target": "t"}, sizes)])]
    found = read(text_of(families))
    assert [(one.name, one.value) for one in found["c"].samples] == [("c_total", 3)]
    told = {(one.name, one.labels.get("le")): one.value for one in found["h"].samples}
    assert told == {
        ("h_bucket", "1.0"): 1, ("h_bucket", "2.5"): 2, ("h_bucket", "+Inf"): 3, ("h_count", None): 3,
        ("h_sum", None): 12,
    }  # fmt: skip


def test_what_is_measured_and_has_no_sample_is_named_all_the_same():
    assert read(text_of([Family("f", "gauge", "said", [])]))["f"].documentation == "said"
