-- Tokens for targets that compare them.

-- name: issue_token
-- Take the next token of a resource, for whoever owns the run.
INSERT INTO token (resource, number)
SELECT :resource, coalesce((SELECT max(number) * 1048576 FROM epoch), 0) + 1 FROM run WHERE no = :run AND generation = :generation
ON CONFLICT (resource) DO UPDATE SET number = number + 1
RETURNING number;
