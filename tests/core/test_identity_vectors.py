"""Fixed values of the key scheme and of canonical JSON: a change here is a new scheme, never a new expectation.

Stored keys and fingerprints were computed like this; whoever changes it makes every open operation a stranger.
"""

import pytest

from fencepost.core.identity import KEY_SCHEME, canonical, fingerprint, operation_key

KEYS = {
    "2432e78d56c5115592c3abfa839c69c07be3a4660ec52a8c1dadf4963cb7cf9c": (
        "default",
        "invoice:tenant-42:inv-1847",
        "create_approval",
        None,
        1,
    ),
    "c23e143aea37bb7de1e7e02d41f48b01d60af23ee129c628aa3f33f2078ae1c4": (
        "default",
        "invoice:tenant-42:inv-1847",
        "post_entry",
        "line-1",
        1,
    ),
    "128dc2130ad7b645ba1c219d2ef301cfb91599c17867a5007a9dc9c9c1542d56": (
        "default",
        "invoice:tenant-42:inv-1847",
        "post_entry",
        "line-1",
        2,
    ),
    "83ece1e7ef76acc5c23af26243f77ebbec6fd7a2f2c3879eb8d7bcc55f0b1a56": ("konto ü", "注文:7", "支払う", "😀", 12),
}

TEXTS = [
    (None, "null", "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b"),
    (
        {"b": 1, "a": [True, False, None]},
        '{"a":[true,false,null],"b":1}',
        "087e44ed138472a81a4a0f8ae84e8f358d0d957d27f51123952aa88c007b1f9f",
    ),
    (
        {"é": 'ß\n"\\\x1f', "Z": 1e16, "a": 0.1},
        '{"Z":1e+16,"a":0.1,"é":"ß\\n\\"\\\\\\u001f"}',
        "490ed68de549f49503f42fd3bf27833372291e2410a94af5f8a577ed17275349",
    ),
    (
        [1e-7, -0.0, 1.0, 100, 5e-324, 1.7976931348623157e308],
        "[1e-07,-0.0,1.0,100,5e-324,1.7976931348623157e+308]",
        "da1a2f9662475f3fafcdf5ec4c64f564edc08e7aaadebf094d2d6962c4fe636f",
    ),
    (
        {"\U0001f600": 1, "\uffff": 2},
        '{"\uffff":2,"\U0001f600":1}',
        "92db27167c6f89fc43ff6c1997a7954a2e5bec81936fbe5ee12b4b6615b09596",
    ),
    (
        [2**64, -(10**30)],
        "[18446744073709551616,-1000000000000000000000000000000]",
        "c93a5f91c55148100d60e5d69f051f878eb2ef85e922e89ffcdcd0b148c77253",
    ),
]


def test_the_scheme_is_the_first():
    assert KEY_SCHEME == 1


@pytest.mark.parametrize(("key", "parts"), KEYS.items())
def test_operation_keys_are_those_of_scheme_1(key: str, parts):
    assert operation_key(*parts) == key


@pytest.mark.parametrize(("data", "text", "digest"), TEXTS)
def test_canonical_texts_and_fingerprints_stay(data: object, text: str, digest: str):
    assert canonical(data) == text
    assert fingerprint(data) == digest
