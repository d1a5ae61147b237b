-- What a start in somebody else's transaction asks of their connection first.

-- name: where_we_are
-- The file that a connection has open; '' for one in memory.
SELECT file FROM pragma_database_list WHERE name = 'main';
