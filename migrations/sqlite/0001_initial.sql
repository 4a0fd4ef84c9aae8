-- The schema of chatcron. Instants are integers, microseconds since the epoch, except in the
-- ctx_* tables, whose columns keep the form in which gateways have them.

CREATE TABLE id_counters (
  name    TEXT NOT NULL PRIMARY KEY,
  next_id INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO id_counters (name, next_id) VALUES
  ('occurrence', 1), ('run', 1), ('turn', 1), ('message', 1), ('part', 1),
  ('request', 1), ('epoch', 1), ('worker', 1);

-- Single facts: what this database is, and the fingerprint of the zone data in use.
CREATE TABLE facts (
  name  TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Keys of messages carry it, so that two databases never send one key.
INSERT INTO facts (name, value) VALUES ('database_id', lower(hex(randomblob(8))));

CREATE TABLE workers (
  worker_id  INTEGER NOT NULL PRIMARY KEY,
  started_at INTEGER NOT NULL,
  stopped_at INTEGER,
  version    TEXT NOT NULL,
  zone_data  TEXT NOT NULL
) STRICT;

-- Every definition a job ever had, so that a run keeps the one it started with.
CREATE TABLE definitions (
  digest     TEXT NOT NULL PRIMARY KEY,
  definition TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE jobs (
  job_id        TEXT NOT NULL PRIMARY KEY,
  incarnation   INTEGER NOT NULL,  -- raised when a removed id is created again
  revision      INTEGER NOT NULL,  -- raised by every change of the definition
  version       INTEGER NOT NULL,  -- raised by every decision; a stale one fails
  source        TEXT NOT NULL,     -- 'file:<name>' or 'runtime:<creator>'
  digest        TEXT NOT NULL REFERENCES definitions (digest),
  first_seen_at INTEGER NOT NULL,  -- also the default anchor of an `every` job
  state         TEXT NOT NULL,     -- policy::JobState as JSON
  wake_at       INTEGER,           -- when the job next needs a decision; NULL for never
  removed_at    INTEGER            -- a removed job keeps its row, for its incarnations
) STRICT, WITHOUT ROWID;

CREATE INDEX idx_jobs_wake_at ON jobs (wake_at) WHERE wake_at IS NOT NULL AND removed_at IS NULL;

-- The ledger: what became of every slot and request. Terminal once.
CREATE TABLE occurrences (
  occurrence_id INTEGER NOT NULL PRIMARY KEY,
  job_id        TEXT NOT NULL,
  incarnation   INTEGER NOT NULL,
  kind          TEXT NOT NULL CHECK (kind IN ('scheduled', 'manual', 'backfill')),
  request_id    INTEGER,           -- manual and backfill
  slot          TEXT,              -- scheduled and backfill: what was written
  nominal_at    INTEGER NOT NULL,  -- derived from the slot
  fire_at       INTEGER NOT NULL,  -- after jitter or spread
  merged        TEXT,              -- JSON: other written times that became this occurrence
  cause         TEXT NOT NULL CHECK (cause IN ('scheduled', 'catch-up', 'manual', 'backfill')),
  digest        TEXT NOT NULL REFERENCES definitions (digest),
  lane          TEXT NOT NULL,     -- the session in which it runs
  destination   TEXT,              -- JSON; NULL for history only
  state         TEXT NOT NULL CHECK (state IN ('waiting', 'active', 'done', 'failed', 'cancelled', 'skipped')),
  reason        TEXT,
  accounted_at  INTEGER NOT NULL,
  ended_at      INTEGER,
  CHECK ((kind = 'scheduled') = (request_id IS NULL)),
  CHECK ((kind = 'manual') = (slot IS NULL))
) STRICT;

CREATE UNIQUE INDEX idx_occurrences_scheduled ON occurrences (job_id, incarnation, slot) WHERE kind = 'scheduled';
CREATE UNIQUE INDEX idx_occurrences_requested ON occurrences (job_id, request_id, ifnull(slot, '')) WHERE kind <> 'scheduled';
CREATE INDEX idx_occurrences_nominal ON occurrences (job_id, nominal_at);

-- Stretches of slots that did not run. Ranges and rows never overlap.
CREATE TABLE occurrence_ranges (
  job_id           TEXT NOT NULL,
  incarnation      INTEGER NOT NULL,
  first_nominal_at INTEGER NOT NULL,
  last_nominal_at  INTEGER NOT NULL,
  first_slot       TEXT NOT NULL,
  last_slot        TEXT NOT NULL,
  slots            INTEGER NOT NULL CHECK (slots >= 1),
  reason           TEXT NOT NULL,
  recorded_at      INTEGER NOT NULL,
  PRIMARY KEY (job_id, incarnation, first_nominal_at)
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
  run_id        INTEGER NOT NULL PRIMARY KEY,
  occurrence_id INTEGER NOT NULL UNIQUE REFERENCES occurrences (occurrence_id),
  job_id        TEXT NOT NULL,
  lane          TEXT NOT NULL,
  cause         TEXT NOT NULL,
  state         TEXT NOT NULL CHECK (state IN ('queued', 'running', 'backoff', 'done', 'failed', 'cancelled')),
  reason        TEXT,
  due_at        INTEGER NOT NULL,  -- since when it may begin its next attempt
  attempts      INTEGER NOT NULL DEFAULT 0,
  epoch         INTEGER NOT NULL DEFAULT 0,
  worker_id     INTEGER,
  context       TEXT,              -- JSON: the snapshot of a chat, taken once
  started_at    INTEGER,
  ended_at      INTEGER,
  error         TEXT,
  output        TEXT,
  usage         TEXT
) STRICT;

CREATE INDEX idx_runs_queued ON runs (lane, due_at, job_id) WHERE state = 'queued';
CREATE INDEX idx_runs_running ON runs (run_id) WHERE state = 'running';
CREATE INDEX idx_runs_job ON runs (job_id, run_id);
CREATE INDEX idx_runs_ended ON runs (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE attempts (
  run_id     INTEGER NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
  attempt    INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  ended_at   INTEGER,
  result     TEXT,               -- done, silent, failed:<reason>, interrupted, cancelled
  error      TEXT,
  PRIMARY KEY (run_id, attempt)
) STRICT, WITHOUT ROWID;

-- What a person should know about a run, a turn or a part; never silent, never in the way.
CREATE TABLE diagnostics (
  diagnostic_id INTEGER NOT NULL PRIMARY KEY,
  run_id        INTEGER,
  turn_id       INTEGER,
  part_id       INTEGER,
  level         TEXT NOT NULL CHECK (level IN ('info', 'warn')),
  code          TEXT NOT NULL,
  message       TEXT NOT NULL,
  recorded_at   INTEGER NOT NULL
) STRICT;

CREATE INDEX idx_diagnostics_run ON diagnostics (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX idx_diagnostics_part ON diagnostics (part_id) WHERE part_id IS NOT NULL;

-- The chats of the jobs file, so that commands and confirmations know whose they are.
CREATE TABLE chats (
  session_key TEXT NOT NULL PRIMARY KEY,
  name        TEXT NOT NULL,
  chat        TEXT NOT NULL,      -- directory::Chat as JSON
  agent       TEXT NOT NULL,
  removed_at  INTEGER
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX idx_chats_name ON chats (name) WHERE removed_at IS NULL;

-- User turns: an inbound message, and where its answer stands.
CREATE TABLE turns (
  turn_id      INTEGER NOT NULL PRIMARY KEY,
  session_key  TEXT NOT NULL,
  source       TEXT NOT NULL,     -- 'say', 'api' or 'channel'
  text         TEXT NOT NULL,
  state        TEXT NOT NULL CHECK (state IN ('waiting', 'running', 'done', 'failed', 'cancelled')),
  attempts     INTEGER NOT NULL DEFAULT 0,
  epoch        INTEGER NOT NULL DEFAULT 0,
  worker_id    INTEGER,
  entry_id     INTEGER NOT NULL,  -- the user's row
  requested_at INTEGER NOT NULL,
  started_at   INTEGER,
  ended_at     INTEGER,
  error        TEXT,
  usage        TEXT
) STRICT;

CREATE INDEX idx_turns_waiting ON turns (session_key, turn_id, requested_at) WHERE state = 'waiting';
CREATE INDEX idx_turns_running ON turns (turn_id) WHERE state = 'running';

-- One lane a session: a turn, a run or a delivery at a time. Free where holder is NULL.
CREATE TABLE lanes (
  session_key TEXT NOT NULL PRIMARY KEY,
  epoch       INTEGER NOT NULL,
  holder      TEXT,               -- 'run:<id>', 'turn:<id>' or 'part:<id>'
  worker_id   INTEGER,
  taken_at    INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE reset_requests (
  session_key  TEXT NOT NULL PRIMARY KEY,
  requested_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The outbox: a message is committed with the state change that caused it.
CREATE TABLE outbox (
  message_id  INTEGER NOT NULL PRIMARY KEY,
  producer    TEXT NOT NULL,
  origin      TEXT NOT NULL,
  ordinal     INTEGER NOT NULL,
  session_key TEXT NOT NULL,      -- the lane
  destination TEXT NOT NULL,      -- JSON, frozen
  agent       TEXT NOT NULL,      -- whose words they are
  speaker     TEXT NOT NULL,
  trigger_source TEXT,
  job_id      TEXT,
  job_name    TEXT,
  zone        TEXT,               -- in which the posting note tells the time
  run_id      INTEGER,
  attempt     INTEGER,
  turn_id     INTEGER,
  on_unknown  TEXT NOT NULL,
  parts       INTEGER NOT NULL,
  enqueued_at INTEGER NOT NULL
) STRICT;

CREATE INDEX idx_outbox_run ON outbox (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX idx_outbox_turn ON outbox (turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX idx_outbox_job ON outbox (job_id) WHERE job_id IS NOT NULL;

CREATE TABLE outbox_parts (
  part_id            INTEGER NOT NULL PRIMARY KEY,
  message_id         INTEGER NOT NULL REFERENCES outbox (message_id),
  part               INTEGER NOT NULL,   -- from 1
  session_key        TEXT NOT NULL,
  begun              INTEGER NOT NULL,   -- 1: goes before everything else of its lane
  idempotency_key    TEXT NOT NULL UNIQUE,
  text               TEXT,               -- exactly as sent; NULL where there is no honest text
  native             TEXT,               -- JSON; the channel's own form, where it is not text
  state              TEXT NOT NULL CHECK (state IN ('pending', 'sending', 'confirmed', 'unknown', 'failed', 'cancelled')),
  reason             TEXT,
  why                TEXT,               -- the channel's last answer in words
  attempts           INTEGER NOT NULL DEFAULT 0,
  in_doubt           INTEGER NOT NULL DEFAULT 0,
  epoch              INTEGER,            -- the lease of the attempt under way; NULL between tries
  first_attempt_at   INTEGER,
  retried_at         INTEGER,            -- when a person had it sent again
  next_attempt_at    INTEGER NOT NULL,
  entry_id           INTEGER,            -- the pending row of a turn's reply
  channel_message_id TEXT,
  shown_at           INTEGER,
  settled_at         INTEGER,
  resolution         TEXT,               -- JSON: evidence that waits for the lane's turn boundary
  UNIQUE (message_id, part)
) STRICT;

-- The head of a lane is the first row of this index.
CREATE INDEX idx_outbox_parts_open ON outbox_parts (session_key, begun DESC, message_id, part) WHERE state IN ('pending', 'sending');
CREATE INDEX idx_outbox_parts_failed ON outbox_parts (part_id) WHERE state = 'failed';
CREATE INDEX idx_outbox_parts_shown ON outbox_parts (session_key, message_id, part) WHERE state IN ('confirmed', 'unknown');
CREATE INDEX idx_outbox_parts_unknown ON outbox_parts (part_id) WHERE state = 'unknown';
CREATE INDEX idx_outbox_parts_resolution ON outbox_parts (message_id, part) WHERE resolution IS NOT NULL;

-- What the channels said about addresses: moved, or stopped until confirmed again.
CREATE TABLE addresses (
  session_key TEXT NOT NULL PRIMARY KEY,
  moved_to    TEXT,
  stopped_at  INTEGER,
  why         TEXT
) STRICT, WITHOUT ROWID;

-- A gateway may have these three already, with fewer columns: `adopt.rs` adds what is missing first.
CREATE TABLE IF NOT EXISTS ctx_sessions (
  session_id  TEXT NOT NULL PRIMARY KEY,
  session_key TEXT NOT NULL,
  agent_id    TEXT,
  generation  INTEGER NOT NULL DEFAULT 0,
  next_seq    INTEGER NOT NULL DEFAULT 1,
  created_at  TEXT NOT NULL
);

CREATE UNIQUE INDEX idx_ctx_sessions_key ON ctx_sessions (session_key, generation);

CREATE TABLE IF NOT EXISTS ctx_session_entries (
  id                 INTEGER PRIMARY KEY,
  session_id         TEXT NOT NULL,
  seq                INTEGER NOT NULL,
  role               TEXT NOT NULL,
  entry_type         TEXT NOT NULL DEFAULT 'message',
  message            TEXT NOT NULL,
  content_kind       TEXT,
  raw_entry          TEXT,
  raw_line           BLOB,
  created_at         TEXT NOT NULL,
  trigger_source     TEXT,
  is_automated       INTEGER,
  sender_display     TEXT,
  sender_id_raw      TEXT,
  visibility         TEXT,
  chat_key           TEXT,
  channel_message_id TEXT,
  shown_at           TEXT,
  origin             TEXT,
  posted_by_job      TEXT,
  posting_note       TEXT,
  turn_id            INTEGER,
  run_id             INTEGER,
  attempt            INTEGER,
  idempotency_key    TEXT
);

CREATE UNIQUE INDEX idx_ctx_session_entries_seq ON ctx_session_entries (session_id, seq);
CREATE INDEX idx_ctx_session_entries_trigger_source ON ctx_session_entries (trigger_source) WHERE trigger_source IS NOT NULL;
CREATE INDEX idx_ctx_session_entries_turn ON ctx_session_entries (turn_id, seq) WHERE turn_id IS NOT NULL;
CREATE UNIQUE INDEX idx_ctx_session_entries_message_id ON ctx_session_entries (chat_key, channel_message_id) WHERE channel_message_id IS NOT NULL;

CREATE TABLE IF NOT EXISTS ctx_turns (
  id         INTEGER PRIMARY KEY,
  session_id TEXT NOT NULL,
  turn_idx   INTEGER NOT NULL,   -- 1-based count of user turns
  turn_id    INTEGER,
  created_at TEXT NOT NULL
);

CREATE UNIQUE INDEX idx_ctx_turns_idx ON ctx_turns (session_id, turn_idx);
