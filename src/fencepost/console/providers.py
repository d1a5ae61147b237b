"""What an operator declares of an OpenID provider: where it is, as whom we are known there, and what its groups may do.

    issuer = "https://id.example.com/realms/ops"
    client_id = "fencepost"
    client_secret_variable = "FENCEPOST_OIDC_SECRET"    # none for a public client
    console = "https://fencepost.example.com"           # where browsers reach this console
    person = "email"                                    # the claim under whose value everything is done
    groups = "groups"                                   # the claim with somebody's groups

    [roles]
    "invoice operators" = ["operator"]
    "invoice approvers" = ["approver"]

Roles come from this table alone: a group that is not in it gives nothing, and no claim of a token is a role. How
somebody is let in is `oidc`.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from fencepost.console.loopback import is_loopback
from fencepost.core.errors import Misuse
from fencepost.core.permissions import Role

BACK = "/sign-in/provider/back"
"""Where the provider sends a browser back to; it must know this address of the console."""


def is_private(address: str) -> bool:
    """Whether what is sent there passes no network in the clear."""
    parts = urlsplit(address)
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))


def _private(address: str) -> str:
    if not is_private(address) or urlsplit(address).query or urlsplit(address).fragment:
        raise ValueError("an address with https:// is needed, without ? and #")
    return address


Address = Annotated[str, AfterValidator(_private)]
Name = Annotated[str, Field(min_length=1)]


class Provider(BaseModel):
    """A provider, as it is declared; a name that is not here is refused. `roles` are by group."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    issuer: Address
    client_id: Name
    console: Address
    roles: Annotated[dict[str, Annotated[list[Role], Field(min_length=1)]], Field(min_length=1)]
    client_secret_variable: Name | None = None
    person: Name = "email"
    groups: Name = "groups"
    scopes: Name = "openid email profile"

    @property
    def back(self) -> str:
        """The address to which the provider sends a browser back."""
        return self.console.rstrip("/") + BACK

    @property
    def host(self) -> str:
        """What the button names."""
        return urlsplit(self.issuer).netloc

    @property
    def is_here(self) -> bool:
        """Whether it is on this machine."""
        return is_loopback(urlsplit(self.issuer).hostname or "")

    def secret(self, environment: Mapping[str, str] = os.environ) -> str | None:
        """Our secret there. Raises `Misuse` if a variable is declared and not set."""
        if self.client_secret_variable is None:
            return None
        found = environment.get(self.client_secret_variable)
        if not found:
            raise Misuse(f"{self.client_secret_variable} is not set", hint="it holds the console's secret there")
        return found

    def roles_for(self, groups: object) -> list[str]:
        """The roles of somebody in these groups; of what is no list of groups, none."""
        named = groups if isinstance(groups, list) else []
        return sorted({role.value for one in named if isinstance(one, str) for role in self.roles.get(one, ())})


def read_provider(file: Path) -> Provider:
    """What a file declares.

    Raises:
        Misuse: there is no such file, or something in it is not of its form.
    """
    try:
        found = Provider.model_validate(tomllib.loads(file.read_text("utf-8")))
    except ValidationError as error:
        flaws = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise Misuse(f"{file} declares no provider: {flaws}", hint="see docs/howto/use-the-console.md") from error
    except (OSError, ValueError) as error:
        raise Misuse(f"{file} cannot be read: {error}", hint="it is a TOML file") from error
    found.secret()
    return found
