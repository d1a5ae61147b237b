-- Who may do what, and what waits for a second person.

-- name: permission_of
-- What a namespace's code declared last.
SELECT policy FROM permission WHERE namespace = :namespace;

-- name: declare_permission
-- Keep what is declared now.
INSERT INTO permission (namespace, policy, declared_at) VALUES (:namespace, :policy, :now)
ON CONFLICT (namespace) DO UPDATE SET policy = excluded.policy, declared_at = excluded.declared_at;

-- name: expire_proposals
-- Close the proposals for a run whose time is over, so that the same may be proposed again.
UPDATE proposal SET state = 'expired', closed_at = :now WHERE run = :run AND state = 'open' AND expires_at <= :now;

-- name: add_proposal
-- Insert a proposal, unless the same one is open already.
INSERT INTO proposal (run, verb, arguments, digest, seen, reason, proposed_by, proposed_at, expires_at)
VALUES (:run, :verb, :arguments, :digest, :seen, :reason, :proposed_by, :proposed_at, :expires_at)
ON CONFLICT (run, digest) WHERE state = 'open' DO NOTHING;

-- name: open_proposal
-- The open proposal for a run with this digest.
SELECT proposal.no, run, namespace, id, verb, arguments, digest, seen, reason, proposed_by, proposed_at, expires_at,
    proposal.state, closed_by, closed_at
FROM proposal JOIN run ON run.no = proposal.run WHERE run = :run AND digest = :digest AND proposal.state = 'open';

-- name: find_proposal
-- The proposal of a namespace with this number.
SELECT proposal.no, run, namespace, id, verb, arguments, digest, seen, reason, proposed_by, proposed_at, expires_at,
    proposal.state, closed_by, closed_at
FROM proposal JOIN run ON run.no = proposal.run WHERE proposal.no = :no AND namespace = :namespace;

-- name: list_proposals
-- A page of a namespace's proposals, newest first: all of them, or those that can be confirmed.
SELECT proposal.no, run, namespace, id, verb, arguments, digest, seen, reason, proposed_by, proposed_at, expires_at,
    proposal.state, closed_by, closed_at
FROM proposal JOIN run ON run.no = proposal.run
WHERE namespace = :namespace AND (:every = 1 OR (proposal.state = 'open' AND expires_at > :now))
ORDER BY proposal.no DESC LIMIT :limit;

-- name: close_proposal
-- Close a proposal that is open and in its time.
UPDATE proposal SET state = :state, closed_by = :by, closed_at = :now
WHERE no = :no AND state = 'open' AND expires_at > :now;
