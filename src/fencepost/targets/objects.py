"""A fence in an object store of S3's kind: a JSON object with the token in it, written with `If-Match` and its ETag.

    plans = ObjectFence(boto3.client("s3", config=Config(retries={"total_max_attempts": 1})), "plans")

    def publish(call: SyncCall, plan: Plan) -> None:
        with call.sending():
            plans.write(plan.line, call.token(plan.line), lambda now: now | {"text": plan.text})

S3's ETag covers an object's bytes and not its metadata, so the token is a field of the content; an object that is no
JSON has no place for it. Whether another store of this kind compares in the same step in which it writes, ask its
documents. Source: Amazon S3 User Guide, "conditional-writes", read 2026-11-29; tested against moto. The client is the
caller's own (`fencepost[aws]`); switch its retries off, since a second copy of a request is refused although the first
was applied. How a token in a document becomes a fence is `document`'s matter.
"""

from __future__ import annotations

from typing import Any

from fencepost.targets.document import Content, Documents, Put, Seen, with_token, without_token


class ObjectFence(Documents):
    """Objects of one bucket, called `prefix` + resource; the token is in `field` of each one's JSON object.

    None may be deleted, or expire, while tokens are issued for it: with the object, its highest token is forgotten.
    `client` is boto3's for S3.
    """

    weakness = None

    def __init__(
        self, client: Any, bucket: str, *, prefix: str = "", field: str = "fencepost_token", name: str = "S3 If-Match"
    ) -> None:
        self.name = name
        self._client = client
        self._bucket = bucket
        self._prefix = prefix
        self._field = field

    def read(self, resource: str) -> Seen:
        """The object as the store has it now; raises botocore's errors, and `Permanent` for what is no JSON object."""
        try:
            reply = self._client.get_object(Bucket=self._bucket, Key=self._prefix + resource)
        except self._client.exceptions.NoSuchKey:
            return Seen({}, 0, None)
        content, token = without_token(reply["Body"].read(), self._field, resource)
        return Seen(content, token, reply["ETag"])

    def _put(self, resource: str, content: Content, token: int, version: str | None) -> Put:
        body = with_token(content, self._field, token)
        condition = {"IfNoneMatch": "*"} if version is None else {"IfMatch": version}
        try:
            self._client.put_object(
                Bucket=self._bucket,
                Key=self._prefix + resource,
                Body=body,
                ContentType="application/json",
                **condition,
            )
        except self._client.exceptions.ClientError as error:
            if error.response["Error"]["Code"] != "PreconditionFailed":
                raise
            return Put(stored=False, maybe_earlier=was_repeated(error))
        return Put(stored=True)


def was_repeated(error: Any) -> bool:
    """Whether botocore sent the request more than once before it got this answer, or does not say."""
    return bool(error.response.get("ResponseMetadata", {}).get("RetryAttempts", 1))
