"""The endpoint through which a test or a demo steers the running world: behaviour, faults, holds, clocks.

It has a port of its own, so that no fault ever strikes it. POST /configure, /release, /clock; GET /waiting. Counts are
not asked here: they are in the files (`counts`), which outlive the process.
"""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, ValidationError

from fencepost.core.errors import Misuse
from fencepost.testing.world.behaviour import Configure, Fault, mistakes
from fencepost.testing.world.conduct import Outcome
from fencepost.testing.world.faults import Holds
from fencepost.testing.world.request import Refusal, Reply, Request, as_text, error_text
from fencepost.testing.world.service import Service


class Release(BaseModel):
    """Let everybody go on who is held under this name, and hold nobody more under it."""

    model_config = ConfigDict(extra="forbid")
    name: str


class MoveClock(BaseModel):
    """Move a service's clock by so many seconds, forward or (negative) back."""

    model_config = ConfigDict(extra="forbid")
    service: str
    seconds: float


class Admin:
    """The admin endpoint as HTTP sees it; the world also applies its settings at start through `configure`."""

    def __init__(self, services: Mapping[str, Service], holds: Holds) -> None:
        self._services = services
        self._holds = holds

    def at_head(self, request: Request) -> Fault | None:
        """No fault strikes here."""
        del request
        return None

    async def pause(self, fault: Fault) -> None:
        """Nothing here waits."""

    def broke_off(self, path: str) -> None:
        """Nothing here is counted."""

    async def answer(self, request: Request) -> Outcome:
        """Do what is asked and return what came of it; what cannot be done is answered with 422 and its reason."""
        try:
            done = self._do(request)
        except Refusal as refusal:
            return Outcome(Reply(refusal.status, error_text(refusal.code, refusal.message)))
        except ValidationError as error:
            return Outcome(Reply(422, error_text("invalid", mistakes(error))))
        except (Misuse, ValueError) as error:
            return Outcome(Reply(422, error_text("invalid", str(error))))
        return Outcome(Reply(200, as_text(done)))

    def configure(self, change: Configure) -> None:
        """Change a service's behaviour; raises `ValueError` for a service or setting that is not there."""
        self._service(change.service).configure(change)

    def _do(self, request: Request) -> object:
        match (request.method, request.path):
            case ("POST", "/configure"):
                self.configure(Configure.model_validate_json(request.body))
                return {}
            case ("POST", "/release"):
                return {"released": self._release(Release.model_validate_json(request.body).name)}
            case ("POST", "/clock"):
                move = MoveClock.model_validate_json(request.body)
                service = self._service(move.service)
                service.advance(int(move.seconds * 1_000_000))
                return {"now": service.now()}
            case ("GET", "/waiting"):
                return self._holds.waiting()
        raise Refusal(404, "not_found", f"the admin endpoint has no {request.method} {request.path}")

    def _release(self, name: str) -> int:
        for service in self._services.values():
            service.faults.finish(name)
        return self._holds.release(name)

    def _service(self, name: str) -> Service:
        if name not in self._services:
            raise ValueError(f"there is no service {name!r}, only {sorted(self._services)}")
        return self._services[name]
