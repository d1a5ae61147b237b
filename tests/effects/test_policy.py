"""A policy is asked in one place: a verdict is handed on, and whatever else comes of it allows nothing."""

import asyncio
import warnings

import pytest

from fencepost.effects.policy import Allowed, PolicyFailed, Refused, ask


@pytest.mark.parametrize("verdict", [Allowed("fine"), Refused("no")])
def test_a_verdict_is_handed_on_and_the_policy_gets_principal_and_arguments(verdict):
    seen = []

    def policy(principal, *args, **kwargs):
        seen.append((principal, args, kwargs))
        return verdict

    assert ask(policy, "ann", 1, to="b") is verdict
    assert seen == [("ann", (1,), {"to": "b"})]


@pytest.mark.parametrize("given", [True, None, "allowed", Allowed])
def test_what_is_no_verdict_allows_nothing(given):
    def lenient(principal):
        return given

    with pytest.raises(PolicyFailed, match=r"policy lenient returned .*returns Allowed\(\) or Refused\(why\)"):
        ask(lenient, None)


def test_an_async_policy_is_refused_without_a_coroutine_left_behind():
    async def waiting(principal):
        return Allowed()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(PolicyFailed, match=r"returned coroutine .*a plain function"):
            ask(waiting, None)


class Silent(Exception):
    def __str__(self):
        raise RuntimeError("not even this")


@pytest.mark.parametrize("error", [KeyError("limit"), SystemExit(3), asyncio.CancelledError(), Silent()])
def test_whatever_a_policy_raises_is_named_and_allows_nothing(error):
    def broken(principal):
        raise error

    with pytest.raises(PolicyFailed, match=rf"the policy broken raised .*{type(error).__name__}"):
        ask(broken, None)


def test_an_interrupt_from_the_keyboard_passes():
    def interrupted(principal):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask(interrupted, None)
