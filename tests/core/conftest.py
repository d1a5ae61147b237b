"""What holds for every test of core: it touches no disk and no clock, and a test that does fails by name.

How hypothesis runs is set in tests/conftest.py; here only its database, which is a folder, is taken away.
"""

import pytest
from hypothesis import settings

from tests.core.purity import watching

settings.register_profile("core", parent=settings.get_profile(settings.get_current_profile_name()), database=None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    usual = settings.get_current_profile_name()
    settings.load_profile("core")
    try:
        with watching() as touched:
            result = yield
    finally:
        settings.load_profile(usual)
    if touched:
        pytest.fail("\n".join(["a test of core touches the outside:", *sorted(set(touched))]))
    return result
