-- What a start in somebody else's transaction asks of their connection first.

-- name: where_we_are
-- Which database of which running server this is; a connection to another one answers something else.
SELECT current_database()::text, (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint;
