-- Tokens by which services and people call over HTTP, by their digests.

-- name: add_api_token
-- Keep a new token's digest, with whose it is and what it may be used for.
INSERT INTO api_token (namespace, person, roles, digest, made_by, made_at, expires_at)
VALUES (:namespace, :person, :roles, :digest, :made_by, :made_at, :expires_at);

-- name: api_token_with
-- The token with this digest.
SELECT no, namespace, person, roles, digest, made_by, made_at, expires_at, revoked_by, revoked_at
FROM api_token WHERE digest = :digest;

-- name: list_api_tokens
-- Every token of a namespace, newest first.
SELECT no, namespace, person, roles, digest, made_by, made_at, expires_at, revoked_by, revoked_at
FROM api_token WHERE namespace = :namespace ORDER BY no DESC;

-- name: revoke_api_token
-- Take a token no more.
UPDATE api_token SET revoked_by = :by, revoked_at = :now
WHERE namespace = :namespace AND no = :no AND revoked_at IS NULL;
