-- Values too large for their rows, in pieces.

-- name: keep_piece
-- Insert a piece of a value of a run, its own or a child's; the same value is kept once.
INSERT OR REPLACE INTO piece (namespace, run_id, digest, number, text) VALUES (
    (SELECT namespace FROM run WHERE no = :run AND generation = :generation), :run_id, :digest, :number, :text
);

-- name: keep_piece_of_start
-- Insert a piece of the input of a run that is about to be started; nothing for one that is there already.
INSERT INTO piece (namespace, run_id, digest, number, text)
SELECT :namespace, :run_id, :digest, :number, :text
WHERE NOT EXISTS (SELECT 1 FROM run WHERE namespace = :namespace AND id = :run_id)
ON CONFLICT (namespace, run_id, digest, number) DO NOTHING;

-- name: pieces_of
-- The pieces of a value, in order.
SELECT text FROM piece WHERE namespace = :namespace AND run_id = :run_id AND digest = :digest ORDER BY number;
