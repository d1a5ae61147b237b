"""A fence in DynamoDB: an item per resource holds the token, compared by the condition of the write itself.

    accounts = DynamoFence(boto3.client("dynamodb", config=Config(retries={"total_max_attempts": 1})), "accounts")

    def set_limit(call: SyncCall, account: str, limit: int) -> None:
        with call.sending():
            accounts.write(account, call.token(account), {"limit": {"N": str(limit)}})

The item is the guarded thing: token and values are set in one conditional update, and nothing has to be read before.
Global tables merge writes of several regions and compare nothing between them, so all writers use one region. Source:
Amazon DynamoDB Developer Guide, "Best practices for handling concurrent updates" (an update is atomic and meets the
latest version of its item), read 2026-11-29; tested against moto. The client is the caller's own (`fencepost[aws]`).
Whether a refusal may follow a repeated request is told by `objects`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fencepost.targets.objects import was_repeated
from fencepost.targets.refusal import refused, repeated


class DynamoFence:
    """Items of one table whose partition key is `key` (a string, no sort key); the token is their number `field`.

    None may be deleted, or expire, while tokens are issued for it: with the item, its highest token is forgotten.
    `client` is boto3's low-level client.
    """

    weakness = None

    def __init__(
        self,
        client: Any,
        table: str,
        *,
        key: str = "id",
        field: str = "fencepost_token",
        name: str = "DynamoDB condition",
    ) -> None:
        self.name = name
        self._client = client
        self._table = table
        self._key = key
        self._field = field

    def raise_to(self, resource: str, token: int) -> None:
        """See `Fence.raise_to`. Where there is no item yet, one is made that holds only the token."""
        self.write(resource, token, {})

    def write(self, resource: str, token: int, values: Mapping[str, Mapping[str, Any]]) -> None:
        """Set attributes of the item, if no higher token is known; `values` are of DynamoDB's form: `{"N": "7"}`.

        Raises:
            FenceRefused: a higher token is known; nothing was written.
            Unresolved: it was refused after the client had sent it more than once.
        """
        every = {self._field: {"N": str(token)}, **values}
        names = {f"#n{number}": name for number, name in enumerate(every)}
        bound = {f":v{number}": value for number, value in enumerate(every.values())}
        sets = ", ".join(f"#n{number} = :v{number}" for number in range(len(every)))
        try:
            self._client.update_item(
                TableName=self._table,
                Key={self._key: {"S": resource}},
                UpdateExpression=f"SET {sets}",
                ConditionExpression="attribute_not_exists(#n0) OR #n0 <= :v0",
                ExpressionAttributeNames=names,
                ExpressionAttributeValues=bound,
            )
        except self._client.exceptions.ConditionalCheckFailedException as error:
            raise (repeated if was_repeated(error) else refused)(resource, token) from error

    def read(self, resource: str) -> dict[str, Any]:
        """The item's attributes now, {} if there is none. For look-ups: the read is strongly consistent."""
        found = self._client.get_item(TableName=self._table, Key={self._key: {"S": resource}}, ConsistentRead=True)
        item: dict[str, Any] = found.get("Item", {})
        return item
