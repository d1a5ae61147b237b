-- What only a server needs: marks of commits, locks among writers, answers for many, and the word to those who listen.

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

-- name: marks_of
-- The last commits of these connections, and the highest time of all in a row of nobody's.
SELECT id, number, at FROM fencepost.mark WHERE id = ANY (:marks::text[])
UNION ALL (SELECT '', 0, coalesce(max(at), 0) FROM fencepost.mark);

-- name: forget_mark
-- Remove the mark of a connection that is about to be closed; the highest time stays in a row of nobody's.
WITH gone AS (DELETE FROM fencepost.mark WHERE id = :mark RETURNING at)
INSERT INTO fencepost.mark AS mark (id, number, at) SELECT '', 0, at FROM gone
ON CONFLICT (id) DO UPDATE SET at = greatest(mark.at, excluded.at);

-- name: forget_marks
-- Remove the marks of connections that were lost more than so many microseconds ago; the highest time stays anyway.
DELETE FROM fencepost.mark WHERE at < (SELECT max(at) - :age::bigint FROM fencepost.mark);

-- name: patience_of_work
-- A statement that waits for a lock gives up, and a process that stops in the middle of its work loses it; until its end.
SELECT set_config('lock_timeout', :patience, true), set_config('idle_in_transaction_session_timeout', :patience, true);

-- name: lock_run
-- Keep a run, and the parent that its end would wake, from everybody else until the end. By number, as in `lock_runs`.
SELECT no FROM fencepost.run
WHERE no = :run OR no = (SELECT parent FROM fencepost.run WHERE no = :run AND parent_step IS NOT NULL)
ORDER BY no FOR NO KEY UPDATE;

-- name: lock_named_run
-- Keep the last turn of the run with this id from everybody else until the end.
SELECT no FROM fencepost.run WHERE namespace = :namespace AND id = :run_id AND state <> 'continued' FOR NO KEY UPDATE;

-- name: lock_family
-- Keep a run and its children from everybody else until the end: a verb may move both.
SELECT no FROM fencepost.run
WHERE no = ANY (ARRAY(SELECT :run::bigint UNION ALL SELECT child.no FROM fencepost.run AS child WHERE parent = :run))
ORDER BY no FOR NO KEY UPDATE;

-- name: lock_runs
-- Keep the runs of a batch from everybody else until its end: what is read of them afterwards stays true. By number, so
-- that two batches cannot wait for each other. And let nobody contain anything until then: see `lock_containment`.
SELECT count(*), pg_advisory_xact_lock_shared(4602678819172646912) FROM (
    SELECT no FROM fencepost.run WHERE no = ANY (:runs::bigint[]) ORDER BY no FOR NO KEY UPDATE
) AS locked;

-- name: lock_containment
-- Wait until every batch that may have looked what is contained is committed, and let the next ones wait, so that they
-- see what this transaction adds. A lock of its own, and not the table's: a backup that reads it would be in the way.
SELECT pg_advisory_xact_lock(4602678819172646912);

-- name: lock_every_run
-- Keep everybody from starting, claiming or moving any run until the end.
LOCK TABLE fencepost.run IN SHARE ROW EXCLUSIVE MODE;

-- name: lock_schedules
-- Let nobody else declare, fire or change a schedule until the end.
LOCK TABLE fencepost.schedule IN SHARE ROW EXCLUSIVE MODE;

-- name: lock_audit
-- Let nobody else append to the chain until the end.
LOCK TABLE fencepost.audit IN SHARE ROW EXCLUSIVE MODE;

-- name: started_runs
-- The runs with these ids, or else those that stand for the same in their queues, in the order in which they are asked
-- for.
SELECT no, run.namespace, run.id, workflow, workflow_version, input, fingerprint, state, generation, version,
    created_at, changed_at, principal, lease, wake_at, parent, result, error, hold, cancel, delivered, ended_at,
    takeovers, resource, parent_step, turn, behind, run.queue, queue_key, priority
FROM unnest(:namespace::text[], :id::text[], :queue::text[], :dedup::text[])
    WITH ORDINALITY AS asked (namespace, id, queue, dedup, place)
JOIN fencepost.run ON run.no = coalesce(
    (
        SELECT no FROM fencepost.run AS same
        WHERE same.namespace = asked.namespace AND same.id = asked.id AND same.state <> 'continued'
    ),
    (
        SELECT no FROM fencepost.run AS same
        WHERE same.namespace = asked.namespace AND same.queue = asked.queue AND same.dedup = asked.dedup
        AND same.dedup IS NOT NULL
        ORDER BY same.ended_at IS NULL AND same.gives_way = 0 DESC, same.no DESC LIMIT 1
    )
)
ORDER BY place;

-- name: lock_line
-- Keep others from standing in the line of a resource until the end, so that its order is that of the commits.
SELECT pg_advisory_xact_lock(hashtextextended(:namespace || ' ' || :resource, 0));

-- name: hold_lines
-- Let nobody else claim from the lines of these resources until the end; those from which somebody claims just now are
-- left to them. Another lock than that of `lock_line`, which a caller's transaction may keep for long.
SELECT value FROM json_array_elements_text(:resources::json)
WHERE pg_try_advisory_xact_lock(hashtextextended('claim ' || :namespace || ' ' || value, 0));

-- name: tell_others
-- Tell those who listen, with the commit.
SELECT pg_notify(:channel, :message);

-- name: tell_of_signal
-- Tell those who listen, with the commit, of a run for which a signal is kept: its number, and how it can be claimed.
SELECT pg_notify(
    :channel, :message || ' run ' || no || CASE WHEN lease IS NULL THEN ' ' || generation || ' ' || state ELSE '' END
)
FROM fencepost.run WHERE namespace = :namespace AND id = :run_id AND state <> 'continued';

-- name: listen
-- Hear what is told from now on.
LISTEN fencepost;

-- name: server_settings
-- What durability rests on, and what this server is.
SELECT name, setting FROM pg_settings
WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes', 'server_version_num', 'max_connections')
ORDER BY name;

-- name: server_use
-- How many connections there are, how many of them are this user's, and for how many seconds the oldest transaction that
-- waits for its client has kept its locks.
SELECT count(*), count(*) FILTER (WHERE usename = current_user), coalesce(
    max(extract(epoch FROM clock_timestamp() - xact_start)) FILTER (WHERE state LIKE 'idle in transaction%'), 0
)::bigint
FROM pg_stat_activity WHERE backend_type = 'client backend';

-- name: schema_is_there
-- Whether a schema of this name exists, and how many tables it holds.
SELECT count(DISTINCT pg_namespace.oid), count(pg_class.oid) FROM pg_namespace
LEFT JOIN pg_class ON pg_class.relnamespace = pg_namespace.oid AND pg_class.relkind = 'r'
WHERE pg_namespace.nspname = :schema;

-- name: schema_number
-- What this schema says that it is; only where its tables are there.
SELECT name, value FROM fencepost.meta WHERE name IN ('marker', 'schema') ORDER BY name;

-- name: marker_is_there
-- Whether a schema holds the table that says what it is.
SELECT count(*) FROM pg_class JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
WHERE pg_namespace.nspname = :schema AND pg_class.relname = 'meta';

-- name: lock_migrations
-- One process at a time brings a schema up to date; until the end of the transaction.
SELECT pg_advisory_xact_lock(hashtext('fencepost migrations'), hashtext(:schema));

-- name: create_schema
-- The schema that holds the ledger's tables.
CREATE SCHEMA fencepost;
