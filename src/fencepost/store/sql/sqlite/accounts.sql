-- People at the console: their accounts, the links by which they come in once, and their sessions.

-- name: keep_account
-- Keep somebody's password, or another one in its place.
INSERT INTO account (namespace, person, roles, password, changed_at)
VALUES (:namespace, :person, :roles, :password, :changed_at)
ON CONFLICT (namespace, person) DO UPDATE
SET roles = excluded.roles, password = excluded.password, changed_at = excluded.changed_at;

-- name: account_of
-- Somebody's account.
SELECT namespace, person, roles, password, changed_at FROM account WHERE namespace = :namespace AND person = :person;

-- name: list_accounts
-- Every account of a namespace, by name.
SELECT namespace, person, roles, password, changed_at FROM account WHERE namespace = :namespace ORDER BY person;

-- name: remove_account
-- Take somebody's password no more.
DELETE FROM account WHERE namespace = :namespace AND person = :person;

-- name: add_invitation
-- Keep a sign-in link's digest.
INSERT INTO invitation (digest, namespace, person, roles, made_by, made_at, expires_at)
VALUES (:digest, :namespace, :person, :roles, :made_by, :made_at, :expires_at);

-- name: invitation_with
-- The sign-in link with this digest.
SELECT digest, namespace, person, roles, made_by, made_at, expires_at, used_at FROM invitation WHERE digest = :digest;

-- name: anybody_invited
-- Whether a link was ever made in a namespace.
SELECT 1 FROM invitation WHERE namespace = :namespace LIMIT 1;

-- name: use_invitation
-- Let a link be good no more, if it still was.
UPDATE invitation SET used_at = :now WHERE digest = :digest AND used_at IS NULL AND expires_at > :now;

-- name: end_invitations_of
-- Let the links of somebody be good no more.
UPDATE invitation SET used_at = :now WHERE namespace = :namespace AND person = :person AND used_at IS NULL;

-- name: begin_session
-- Let somebody in.
INSERT INTO session (digest, namespace, person, roles, began_at, seen_at)
VALUES (:digest, :namespace, :person, :roles, :began_at, :seen_at);

-- name: forget_sessions
-- Forget the sessions that began before a time: nobody can still be in one.
DELETE FROM session WHERE namespace = :namespace AND began_at < :before;

-- name: session_with
-- The session with this digest.
SELECT digest, namespace, person, roles, began_at, seen_at, ended_at FROM session WHERE digest = :digest;

-- name: note_session
-- Note that somebody was seen.
UPDATE session SET seen_at = :now WHERE digest = :digest AND seen_at < :now AND ended_at IS NULL;

-- name: end_session
-- End one.
UPDATE session SET ended_at = :now WHERE digest = :digest AND ended_at IS NULL;

-- name: end_sessions_of
-- End every session of somebody.
UPDATE session SET ended_at = :now WHERE namespace = :namespace AND person = :person AND ended_at IS NULL;
