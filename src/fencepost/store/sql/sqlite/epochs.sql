-- What a restore from a backup changes. 1048576 is core's GENERATIONS_PER_SECOND; a test compares them.

-- name: current_epoch
-- The epoch that the ledger is in; none if it was never restored.
SELECT number, lost_from, began_at, closed_at FROM epoch ORDER BY number DESC LIMIT 1;

-- name: begin_epoch
-- Begin the next epoch: above the one before, and at least the wall clock in seconds.
INSERT INTO epoch (number, lost_from, began_at)
SELECT max(coalesce((SELECT max(number) FROM epoch), 0) + 1, :now / 1000000), :lost_from, :now;

-- name: close_lost_span
-- A person says that nothing more will turn up from the lost time.
UPDATE epoch SET closed_at = :now WHERE number = (SELECT max(number) FROM epoch) AND closed_at IS NULL;

-- name: raise_generations
-- Take every run from whoever may hold it in the lost time.
UPDATE run SET generation = (SELECT max(number) * 1048576 FROM epoch), version = version + 1;

-- name: raise_tokens
-- Void every token issued before.
UPDATE token SET number = (SELECT max(number) * 1048576 FROM epoch);

-- name: expire_all_leases
-- Close every lease of before: none of their owners knows what this ledger says now.
UPDATE lease SET state = 'expired', closed_at = :now WHERE state = 'live';

-- name: last_trace
-- The latest thing that this ledger remembers; 0 if nothing. It may look at every row: it is asked once a restore.
SELECT max(
    coalesce((SELECT max(changed_at) FROM run), 0),
    coalesce((SELECT max(changed_at) FROM operation), 0),
    coalesce((SELECT max(seen_at) FROM observation), 0),
    coalesce((SELECT max(sent_at) FROM signal), 0),
    coalesce((SELECT max(at) FROM audit), 0),
    coalesce((SELECT max(renewed_at) FROM lease), 0)
);
