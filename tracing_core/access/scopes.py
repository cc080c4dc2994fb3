# SPDX-License-Identifier: Apache-2.0
"""What a token allows, what a route needs, and who is asking."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum, unique


@unique
class Scope(StrEnum):
    """What the holder of a token may do."""

    INGEST = "ingest"
    """Send spans."""
    READ = "read"
    """Read traces and what is derived from them."""
    FABRIC_READ = "fabric:read"
    """Read what belongs to no tenant: clocks, links, fabric. For operators."""
    ADMIN = "admin"
    """Everything, the service's own state included. For operators."""


TENANT_SCOPES = frozenset({Scope.INGEST, Scope.READ})
"""Scopes that a tenant's token may have."""


@unique
class Need(StrEnum):
    """What a route asks of a token; beyond the first two the scope of that name."""

    NOTHING = "none"
    """Open to everybody: nothing that is stored is shown."""
    TOKEN = "any token"
    INGEST = "ingest"
    READ = "read"
    FABRIC_READ = "fabric:read"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who is asking."""

    token_id: str = ""
    """Empty for nobody in particular."""
    is_operator: bool = False
    tenant: str = ""
    """The only tenant that is visible; an operator's is empty, and every one is."""
    scopes: Collection[Scope] = frozenset()

    def may(self, need: Need) -> bool:
        """Whether a route with this need is open to them.

        >>> Identity(tenant="alpha", scopes={Scope.READ}).may(Need.READ)
        True
        >>> Identity(is_operator=True, scopes={Scope.READ}).may(Need.FABRIC_READ)
        False
        """
        if need is Need.NOTHING:
            return True
        if need is Need.TOKEN:
            return self.is_operator or bool(self.tenant)
        return Scope.ADMIN in self.scopes or Scope(need.value) in self.scopes

    @property
    def view(self) -> str:
        """Equal for two identities that are shown the same of one URL."""
        kind = "operator" if self.is_operator else "tenant"
        return f"{kind} {self.tenant!r} {' '.join(sorted(self.scopes))}"


ANYBODY = Identity()
"""Without a token."""
EVERYTHING = Identity(is_operator=True, scopes=frozenset(Scope))
"""Everybody while access control is off."""
