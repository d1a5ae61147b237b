-- Worker lives: taken, renewed, ended, or expired by whoever finds them overdue.

-- name: take_lease
-- Insert a live lease.
INSERT INTO fencepost.lease (id, host, boot_id, pid, process_started, state, taken_at, renewed_at, expires_at, margin,
    carries)
VALUES (:id, :host, :boot_id, :pid, :process_started, 'live', :taken_at, :renewed_at, :expires_at, :margin,
    :carries);

-- name: renew_lease
-- Extend a live lease; one that is over stays over. `renewed_at` never goes back. A ledger that is older than what its
-- owner has seen in it (`seen`, its last renewal) was restored.
UPDATE fencepost.lease SET renewed_at = greatest(renewed_at, :now), expires_at = :expires_at,
    carries = coalesce(:carries::text, carries)
WHERE id = :lease AND state = 'live' AND renewed_at >= :seen;

-- name: lease_since
-- Whether the ledger still knows of this lease what its owner has seen in it.
SELECT 1 FROM fencepost.lease WHERE id = :lease AND renewed_at >= :seen;

-- name: end_lease
-- Give a live lease back.
UPDATE fencepost.lease SET state = 'ended', closed_at = :now WHERE id = :lease AND state = 'live';

-- name: expire_leases
-- Close every live lease that is overdue: the compare-and-set that no renewal undoes. One that somebody is renewing or
-- closing at this moment is left to the next claim. The larger margin counts, that of the lease or of whoever closes it.
UPDATE fencepost.lease SET state = 'expired', closed_at = :now WHERE id IN (
    SELECT id FROM fencepost.lease WHERE state = 'live' AND expires_at <= :now::bigint - greatest(margin, :margin::bigint)
    FOR NO KEY UPDATE SKIP LOCKED
)
RETURNING id;

-- name: lease_is_live
-- Whether a lease is live, and kept so until what is claimed for it is committed.
SELECT 1 FROM fencepost.lease WHERE id = :lease AND state = 'live' FOR SHARE;

-- name: all_leases
-- Leases that are live or still own a run, newest first.
SELECT id, host, boot_id, pid, process_started, state, taken_at, renewed_at, expires_at, closed_at,
    margin, carries
FROM fencepost.lease
WHERE state = 'live' OR EXISTS (SELECT 1 FROM fencepost.run WHERE run.lease = lease.id AND run.lease IS NOT NULL)
ORDER BY taken_at DESC, id;
