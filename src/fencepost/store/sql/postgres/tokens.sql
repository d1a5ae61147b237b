-- Tokens for targets that compare them.

-- name: issue_token
-- Take the next token of a resource, for whoever owns the run; the run is locked before.
INSERT INTO fencepost.token AS token (resource, number)
SELECT :resource, coalesce((SELECT max(number) * 1048576 FROM fencepost.epoch), 0) + 1 FROM fencepost.run
WHERE no = :run AND generation = :generation
ON CONFLICT (resource) DO UPDATE SET number = token.number + 1
RETURNING number;
