-- Worker lives: taken, renewed, ended, or expired by whoever finds them overdue.

-- name: take_lease
-- Insert a live lease.
INSERT INTO lease (id, host, boot_id, pid, process_started, state, taken_at, renewed_at, expires_at, margin,
    carries)
VALUES (:id, :host, :boot_id, :pid, :process_started, 'live', :taken_at, :renewed_at, :expires_at, :margin,
    :carries);

-- name: renew_lease
-- Extend a live lease; one that is over stays over. `renewed_at` never goes back: `latest_time` reads the clock's highest
-- reading there, after everything else was written by a clock that has been set back.
-- A ledger that is older than what its owner has seen in it (`seen`, its last renewal) was restored.
UPDATE lease SET renewed_at = max(renewed_at, :now), expires_at = :expires_at,
    carries = coalesce(:carries, carries)
WHERE id = :lease AND state = 'live' AND renewed_at >= :seen;

-- name: lease_since
-- Whether the ledger still knows of this lease what its owner has seen in it.
SELECT 1 FROM lease WHERE id = :lease AND renewed_at >= :seen;

-- name: end_lease
-- Give a live lease back.
UPDATE lease SET state = 'ended', closed_at = :now WHERE id = :lease AND state = 'live';

-- name: expire_leases
-- Close every live lease that is overdue: the compare-and-set that no renewal undoes. The larger margin counts, that of
-- the lease or that of whoever closes it.
UPDATE lease SET state = 'expired', closed_at = :now
WHERE state = 'live' AND expires_at <= :now - :margin AND expires_at <= :now - margin
RETURNING id;

-- name: lease_is_live
-- Whether a lease is live, read under the write lock before anything is claimed for it.
SELECT 1 FROM lease WHERE id = :lease AND state = 'live';

-- name: all_leases
-- Leases that are live or still own a run, newest first.
SELECT id, host, boot_id, pid, process_started, state, taken_at, renewed_at, expires_at, closed_at,
    margin, carries
FROM lease
WHERE state = 'live' OR EXISTS (SELECT 1 FROM run WHERE run.lease = lease.id AND run.lease IS NOT NULL)
ORDER BY taken_at DESC, id;
