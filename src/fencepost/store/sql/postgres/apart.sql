-- Values too large for their rows, in pieces.

-- name: keep_piece
-- Insert pieces of values of runs, their own or a child's; the same value is kept once.
WITH allowed AS (
    SELECT run.namespace, move.run_id, move.digest, move.number, move.text
    FROM unnest(
        :run::bigint[], :generation::bigint[], :run_id::text[], :digest::text[], :number::bigint[], :text::text[]
    ) AS move (run, generation, run_id, digest, number, text)
    JOIN fencepost.run ON run.no = move.run AND run.generation = move.generation
), kept AS (
    INSERT INTO fencepost.piece (namespace, run_id, digest, number, text)
    SELECT namespace, run_id, digest, number, text FROM allowed
    ON CONFLICT (namespace, run_id, digest, number) DO NOTHING
)
SELECT fencepost.all_of(count(*), cardinality(:run)) FROM allowed;

-- name: keep_piece_of_start
-- Insert pieces of the inputs of runs that are about to be started; nothing for those that are there already.
INSERT INTO fencepost.piece (namespace, run_id, digest, number, text)
SELECT new.namespace, new.run_id, digest, number, text
FROM unnest(
    :namespace::text[], :run_id::text[], :digest::text[], :number::bigint[], :text::text[]
) AS new (namespace, run_id, digest, number, text)
WHERE NOT EXISTS (SELECT 1 FROM fencepost.run WHERE run.namespace = new.namespace AND run.id = new.run_id)
ON CONFLICT (namespace, run_id, digest, number) DO NOTHING;

-- name: pieces_of
-- The pieces of a value, in order.
SELECT text FROM fencepost.piece
WHERE namespace = :namespace AND run_id = :run_id AND digest = :digest ORDER BY number;
