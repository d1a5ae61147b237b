-- What only a server needs: marks of commits, locks among writers, and the word to those who listen.

-- name: mark_commit
-- Number a connection's commit, in the commit itself; the server's clock. Refused once the number was declared void.
WITH marked AS (
    INSERT INTO fencepost.mark AS mark (id, number, at) VALUES (:mark, :number, :at)
    ON CONFLICT (id) DO UPDATE SET number = excluded.number, at = greatest(mark.at, excluded.at)
    WHERE mark.number = excluded.number - 1
    RETURNING 1
)
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, fencepost.all_of(count(*), 1) FROM marked;

-- name: keep_mark
-- Make sure that a mark has a row, so that it can be locked. Waits for a commit that is under way.
INSERT INTO fencepost.mark (id, number, at) VALUES (:mark, 0, 0) ON CONFLICT (id) DO NOTHING;

-- name: void_mark
-- Declare a commit void unless it has happened: whatever of it is still on its way is refused. Waits like `keep_mark`.
UPDATE fencepost.mark SET number = :number::bigint + 1 WHERE id = :mark AND number < :number;

-- name: find_mark
-- The number of a connection's last commit; one more than it has asked for where that was declared void.
SELECT number FROM fencepost.mark WHERE id = :mark;

-- name: forget_marks
-- Remove the marks of connections that are long gone; the highest time stays.
DELETE FROM fencepost.mark WHERE at < :before AND at < (SELECT max(at) FROM fencepost.mark);

-- name: patience_of_work
-- A statement that waits for a lock gives up, and a process that stops in the middle of its work loses it; until its end.
SELECT set_config('lock_timeout', :patience, true), set_config('idle_in_transaction_session_timeout', :patience, true);

-- name: lock_run
-- Keep a run from everybody else until the end.
SELECT no FROM fencepost.run WHERE no = :run FOR NO KEY UPDATE;

-- name: lock_runs
-- Keep the runs of a batch from everybody else until its end: what is read of them afterwards stays true. By number, so
-- that two batches cannot wait for each other.
SELECT count(*) FROM (
    SELECT no FROM fencepost.run WHERE no = ANY (:runs::bigint[]) ORDER BY no FOR NO KEY UPDATE
) AS locked;

-- name: lock_audit
-- Let nobody else append to the chain until the end.
LOCK TABLE fencepost.audit IN SHARE ROW EXCLUSIVE MODE;

-- name: tell_others
-- Tell those who listen, with the commit.
SELECT pg_notify(:channel, :message);

-- name: listen
-- Hear what is told from now on.
LISTEN fencepost;
