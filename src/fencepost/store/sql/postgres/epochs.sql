-- What a restore from a backup changes. 1048576 is core's GENERATIONS_PER_SECOND; a test compares them.

-- name: current_epoch
-- The epoch that the ledger is in; none if it was never restored.
SELECT number, lost_from, began_at, closed_at FROM fencepost.epoch ORDER BY number DESC LIMIT 1;

-- name: begin_epoch
-- Begin the next epoch: above the one before, and at least the wall clock in seconds.
INSERT INTO fencepost.epoch (number, lost_from, began_at)
SELECT greatest(coalesce((SELECT max(number) FROM fencepost.epoch), 0) + 1, :now::bigint / 1000000), :lost_from::bigint, :now::bigint;

-- name: close_lost_span
-- A person says that nothing more will turn up from the lost time.
UPDATE fencepost.epoch SET closed_at = :now WHERE number = (SELECT max(number) FROM fencepost.epoch) AND closed_at IS NULL;

-- name: raise_generations
-- Take every run from whoever may hold it in the lost time.
UPDATE fencepost.run SET generation = (SELECT max(number) * 1048576 FROM fencepost.epoch), version = version + 1;

-- name: raise_tokens
-- Void every token issued before.
UPDATE fencepost.token SET number = (SELECT max(number) * 1048576 FROM fencepost.epoch);

-- name: expire_all_leases
-- Close every lease of before: none of their owners knows what this ledger says now.
UPDATE fencepost.lease SET state = 'expired', closed_at = :now WHERE state = 'live';

-- name: last_trace
-- The latest thing that this ledger remembers; 0 if nothing. It may look at every row: it is asked once a restore.
SELECT greatest(
    coalesce((SELECT max(changed_at) FROM fencepost.run), 0),
    coalesce((SELECT max(changed_at) FROM fencepost.operation), 0),
    coalesce((SELECT max(seen_at) FROM fencepost.observation), 0),
    coalesce((SELECT max(sent_at) FROM fencepost.signal), 0),
    coalesce((SELECT max(at) FROM fencepost.audit), 0),
    coalesce((SELECT max(renewed_at) FROM fencepost.lease), 0)
);
