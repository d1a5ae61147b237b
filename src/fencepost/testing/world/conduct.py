"""The order of events for one request: the fault in front, the key, the work, the effect, the fault behind.

    counted -> [in front: limits, drops] -> key known? -> [work takes long] -> commit -> [behind] -> reply

One fault at most strikes a request once it is whole. A client that goes away stops nothing here, as it stops no real
service: what was begun is finished. What goes over the wire is left to `web` and `smtp`.
"""

import json
from typing import Literal, NamedTuple

from fencepost.testing.world.behaviour import Fault
from fencepost.testing.world.faults import Holds
from fencepost.testing.world.request import Arrival, Refusal, Reply, Value, as_text
from fencepost.testing.world.service import Service

Ending = Literal["whole", "garbled", "reset", "truncate", "half-close"]


class Outcome(NamedTuple):
    """What is to go over the wire: the reply, whole or cut short, or none at all."""

    reply: Reply | None
    ending: Ending = "whole"


class Conduct:
    """Takes arrivals of one service through the order of events; holds are shared by the whole world."""

    def __init__(self, service: Service, holds: Holds) -> None:
        self.service = service
        self.holds = holds

    async def __call__(self, arrival: Arrival, made: Value | None = None) -> Outcome:
        """Return what to send for this arrival; `made` is the object that a mail becomes, where HTTP says it itself."""
        fault = self.service.faults.choose(arrival.target, frozenset({"before", "after"}))
        if fault is not None:
            self.service.strike(fault, arrival.name)
        if fault is not None and fault.in_front:
            await self.holds.pause(fault)
            return self._shaped(arrival, fault, None)
        try:
            reply = self.service.known(arrival) or await self._work(arrival, fault, made)
        except Refusal as refusal:
            reply = self.service.refuse(arrival, refusal)
        if fault is None or fault.moment == "before":
            return Outcome(reply)
        await self.holds.pause(fault)
        return self._shaped(arrival, fault, reply)

    async def _work(self, arrival: Arrival, fault: Fault | None, made: Value | None) -> Reply:
        with self.service.working(arrival):
            if fault is not None and fault.moment == "before":
                await self.holds.pause(fault)
                if fault.do == "answer":
                    return self.service.answer(fault, arrival.name, arrival)
            return self.service.perform(arrival) if made is None else self.service.make(arrival, made)

    def _shaped(self, arrival: Arrival, fault: Fault, reply: Reply | None) -> Outcome:
        match fault.do:
            case "reset":
                return Outcome(None, "reset")
            case "half-close":
                return Outcome(None, "half-close")
            case "truncate":
                return Outcome(reply, "truncate")
            case "answer":
                return Outcome(self.service.answer(fault, arrival.name, arrival))
            case "malformed":
                status = 200 if reply is None else reply.status
                return Outcome(Reply(status, '{"id": "task-' if fault.text is None else fault.text), "garbled")
            case "huge" if reply is not None:
                shown = json.loads(reply.text)
                padded = {**(shown if isinstance(shown, dict) else {"found": shown}), "padding": "x" * fault.size}
                return Outcome(Reply(reply.status, as_text(padded), reply.headers))
        return Outcome(reply)
