-- Which key seals what the ledger holds.

-- name: codec_mark
-- What tells whether a key is the right one.
SELECT value FROM fencepost.meta WHERE name = 'codec';

-- name: mark_codec
-- Leave it there, in place of the one before.
INSERT INTO fencepost.meta (name, value) VALUES ('codec', :mark) ON CONFLICT (name) DO UPDATE SET value = excluded.value;
