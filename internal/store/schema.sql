CREATE TABLE meta (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The audit log. record and hash are the truth; the other columns repeat the
-- record's members so that they can be searched, and verification compares them.
CREATE TABLE audit (
  seq         INTEGER PRIMARY KEY,
  hash        TEXT NOT NULL,
  record      TEXT NOT NULL,
  time        INTEGER NOT NULL,
  action      TEXT NOT NULL,
  phase       TEXT NOT NULL,
  step        TEXT NOT NULL,
  result      TEXT NOT NULL,
  run         TEXT NOT NULL,
  plan        TEXT NOT NULL,
  queue       TEXT NOT NULL,
  copy_id     TEXT NOT NULL,
  job_key     TEXT NOT NULL,
  message_id  TEXT NOT NULL,
  customer    TEXT NOT NULL
) STRICT;
CREATE INDEX audit_run        ON audit (run)          WHERE run <> '';
CREATE INDEX audit_plan       ON audit (plan, action) WHERE plan <> '';
CREATE INDEX audit_copy       ON audit (copy_id)      WHERE copy_id <> '';
CREATE INDEX audit_job        ON audit (job_key)      WHERE job_key <> '';
CREATE INDEX audit_message    ON audit (message_id)   WHERE message_id <> '';
CREATE INDEX audit_customer   ON audit (customer)     WHERE customer <> '';
CREATE INDEX audit_time       ON audit (time);

-- Where the log ends, so that a tail that is simply gone shows at once.
CREATE TABLE audit_head (
  one  INTEGER PRIMARY KEY CHECK (one = 1),
  seq  INTEGER NOT NULL,
  hash TEXT NOT NULL
) STRICT;
INSERT INTO audit_head VALUES (1, 0, '');

CREATE TABLE plans (
  id              TEXT PRIMARY KEY,
  bytes           BLOB NOT NULL,
  state           TEXT NOT NULL,
  queue           TEXT NOT NULL,
  lease_key       TEXT NOT NULL,
  tier            TEXT NOT NULL,
  redrives        INTEGER NOT NULL,
  created_at      INTEGER NOT NULL,
  expires_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX plans_queue ON plans (queue, created_at);
CREATE INDEX plans_live  ON plans (state) WHERE state IN ('waiting', 'approved', 'running');

CREATE TABLE plan_items (
  plan           TEXT NOT NULL REFERENCES plans (id),
  n              INTEGER NOT NULL,
  copy           TEXT NOT NULL,
  copy_entity    TEXT NOT NULL,
  copy_id        TEXT NOT NULL,
  job_key        TEXT NOT NULL,
  consumer       TEXT NOT NULL,
  origin         TEXT NOT NULL,
  payload_sha256 TEXT NOT NULL,
  PRIMARY KEY (plan, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX plan_items_copy    ON plan_items (copy, plan);
CREATE INDEX plan_items_job     ON plan_items (job_key, consumer) WHERE job_key <> '';
CREATE INDEX plan_items_payload ON plan_items (payload_sha256, origin) WHERE job_key = '';

CREATE TABLE approvals (
  seq       INTEGER PRIMARY KEY, -- of its audit record
  plan      TEXT NOT NULL REFERENCES plans (id),
  statement TEXT NOT NULL
) STRICT;
CREATE INDEX approvals_plan ON approvals (plan);

CREATE TABLE runs (
  id         TEXT PRIMARY KEY,
  plan       TEXT NOT NULL UNIQUE REFERENCES plans (id),
  queue      TEXT NOT NULL,
  state      TEXT NOT NULL,
  holder     TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  ended_at   INTEGER NOT NULL,
  report     TEXT NOT NULL
) STRICT;

-- One holder per dead-letter queue. Tokens come from AUTOINCREMENT, so that
-- none is ever given twice.
CREATE TABLE leases (
  token   INTEGER PRIMARY KEY AUTOINCREMENT,
  key     TEXT NOT NULL UNIQUE,
  run     TEXT NOT NULL REFERENCES runs (id),
  holder  TEXT NOT NULL,
  since   INTEGER NOT NULL,
  expires INTEGER NOT NULL
) STRICT;
CREATE INDEX leases_run ON leases (run);

CREATE TABLE archives (
  run               TEXT NOT NULL,
  copy              TEXT NOT NULL,
  plan              TEXT NOT NULL,
  queue             TEXT NOT NULL,
  owner             TEXT NOT NULL,
  action            TEXT NOT NULL,
  archived_at       INTEGER NOT NULL,
  retention_seconds INTEGER NOT NULL,
  job               TEXT NOT NULL,
  body              BLOB NOT NULL,
  raw               BLOB NOT NULL,
  sha256            TEXT NOT NULL,
  PRIMARY KEY (run, copy)
) STRICT;

CREATE TABLE captures (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  queue       TEXT NOT NULL,
  captured_at INTEGER NOT NULL,
  whole       INTEGER NOT NULL,
  header      TEXT NOT NULL
) STRICT;
CREATE INDEX captures_queue ON captures (queue, captured_at);

CREATE TABLE capture_jobs (
  capture INTEGER NOT NULL REFERENCES captures (id) ON DELETE CASCADE,
  n       INTEGER NOT NULL,
  job     TEXT NOT NULL,
  PRIMARY KEY (capture, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE verdicts (
  id              INTEGER PRIMARY KEY,
  queue           TEXT NOT NULL,
  job_key         TEXT NOT NULL,
  attempt         INTEGER NOT NULL,
  verdict         TEXT NOT NULL,
  at              INTEGER NOT NULL,
  until           INTEGER NOT NULL,
  evidence        TEXT NOT NULL,
  evidence_sha256 TEXT NOT NULL
) STRICT;
CREATE INDEX verdicts_job ON verdicts (queue, job_key, at);

CREATE TABLE seen_rows (
  ledger     TEXT NOT NULL,
  job_key    TEXT NOT NULL,
  consumer   TEXT NOT NULL,
  state      TEXT NOT NULL,
  attempt    INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (ledger, job_key, consumer)
) STRICT, WITHOUT ROWID;
