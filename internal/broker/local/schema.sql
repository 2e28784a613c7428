-- One row per queue. Times here are lengths in milliseconds.
CREATE TABLE queue (
  name          TEXT    NOT NULL PRIMARY KEY CHECK (name <> ''),
  visibility_ms INTEGER NOT NULL DEFAULT 30000   CHECK (visibility_ms BETWEEN 1 AND 43200000),
  delay_ms      INTEGER NOT NULL DEFAULT 0       CHECK (delay_ms >= 0),
  retention_ms  INTEGER NOT NULL DEFAULT 0       CHECK (retention_ms >= 0),
  dead_letter   TEXT             REFERENCES queue (name) CHECK (dead_letter <> name),
  max_receives  INTEGER NOT NULL DEFAULT 0       CHECK (max_receives >= 0),
  ordered       INTEGER NOT NULL DEFAULT 0       CHECK (ordered IN (0, 1)),
  max_bytes     INTEGER NOT NULL DEFAULT 1048576 CHECK (max_bytes > 0),
  CHECK (max_receives = 0 OR dead_letter IS NOT NULL)
) STRICT, WITHOUT ROWID;

-- One row per copy. Times are milliseconds since 1970-01-01 UTC. The body comes
-- last, so that the small columns are read without it.
CREATE TABLE message (
  id                INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice
  queue             TEXT    NOT NULL REFERENCES queue (name),
  message_id        TEXT    NOT NULL,
  order_key         TEXT    NOT NULL DEFAULT '',
  visible_at        INTEGER NOT NULL,
  expires_at        INTEGER,                     -- NULL: never
  receipt           TEXT,                        -- NULL: not leased
  receives          INTEGER NOT NULL DEFAULT 0,
  blocked           INTEGER NOT NULL DEFAULT 0,  -- 1: an earlier copy of its group is still here
  sent_at           INTEGER NOT NULL,
  first_received_at INTEGER,                     -- NULL: never received
  origin            TEXT    NOT NULL DEFAULT '', -- the queue it was dead-lettered from
  raw_format        TEXT    NOT NULL DEFAULT '',
  raw               BLOB,
  body              BLOB    NOT NULL
) STRICT;

-- What may be received next; it also counts a queue without touching a body.
CREATE INDEX message_ready ON message (queue, blocked, visible_at, expires_at, sent_at);
-- Browsing by page.
CREATE INDEX message_queue ON message (queue, id);
-- The head of an ordering group.
CREATE INDEX message_group ON message (queue, order_key, id) WHERE order_key <> '';
-- What is leased, and whether a group is.
CREATE INDEX message_leased ON message (queue, order_key, visible_at) WHERE receipt IS NOT NULL;
-- What is to be removed for its age.
CREATE INDEX message_expiry ON message (queue, expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE attribute (
  message  INTEGER NOT NULL,
  system   INTEGER NOT NULL CHECK (system IN (0, 1)), -- 1: set by the broker, or with its leave
  position INTEGER NOT NULL,
  name     TEXT    NOT NULL CHECK (name <> ''),
  type     TEXT    NOT NULL DEFAULT 'String',
  value    BLOB    NOT NULL,
  PRIMARY KEY (message, system, position)
) STRICT, WITHOUT ROWID;

-- The deduplication window: what was accepted, until when a repeat is swallowed.
CREATE TABLE dedup (
  queue      TEXT    NOT NULL,
  dedup_id   TEXT    NOT NULL,
  until      INTEGER NOT NULL,
  message_id TEXT    NOT NULL,
  PRIMARY KEY (queue, dedup_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX dedup_until ON dedup (until);

-- In an ordered queue only the head of a group is unblocked.
CREATE TRIGGER message_joins_group AFTER INSERT ON message
WHEN new.order_key <> '' AND (SELECT ordered FROM queue WHERE name = new.queue)
BEGIN
  UPDATE message SET blocked = 1 WHERE id = new.id AND EXISTS (
    SELECT 1 FROM message AS earlier
     WHERE earlier.queue = new.queue AND earlier.order_key = new.order_key
       AND earlier.order_key <> '' AND earlier.id < new.id);
END;

CREATE TRIGGER message_leaves AFTER DELETE ON message
BEGIN
  DELETE FROM attribute WHERE message = old.id;
  UPDATE message SET blocked = 0 WHERE old.order_key <> '' AND id = (
    SELECT min(id) FROM message
     WHERE queue = old.queue AND order_key = old.order_key AND order_key <> '');
END;
