-- The schema of chatcron in PostgreSQL: the tables and columns of `migrations/sqlite`, which has the
-- comments on what they mean. Instants are integers, microseconds since the epoch, except in the
-- ctx_* tables. Job ids are ordered byte by byte, as everywhere else in chatcron.

CREATE TABLE id_counters (
  name    TEXT NOT NULL PRIMARY KEY,
  next_id BIGINT NOT NULL
);

INSERT INTO id_counters (name, next_id) VALUES
  ('occurrence', 1), ('run', 1), ('turn', 1), ('message', 1), ('part', 1),
  ('request', 1), ('epoch', 1), ('worker', 1);

-- Single facts: what this database is, and the fingerprint of the zone data in use.
CREATE TABLE facts (
  name  TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
);

-- Keys of messages carry it, so that two databases never send one key.
INSERT INTO facts (name, value) VALUES ('database_id', substr(md5(gen_random_uuid()::text), 1, 16));

CREATE TABLE workers (
  worker_id  BIGINT NOT NULL PRIMARY KEY,
  started_at BIGINT NOT NULL,
  stopped_at BIGINT,
  version    TEXT NOT NULL,
  zone_data  TEXT NOT NULL
);

-- Every definition a job ever had, so that a run keeps the one it started with.
CREATE TABLE definitions (
  digest     TEXT NOT NULL PRIMARY KEY,
  definition TEXT NOT NULL
);

CREATE TABLE jobs (
  job_id        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  incarnation   BIGINT NOT NULL,   -- raised when a removed id is created again
  revision      BIGINT NOT NULL,   -- raised by every change of the definition
  version       BIGINT NOT NULL,   -- raised by every decision; a stale one fails
  source        TEXT NOT NULL,     -- 'file:<name>' or 'runtime:<creator>'
  digest        TEXT NOT NULL REFERENCES definitions (digest),
  first_seen_at BIGINT NOT NULL,   -- also the default anchor of an `every` job
  state         TEXT NOT NULL,     -- policy::JobState as JSON
  wake_at       BIGINT,            -- when the job next needs a decision; NULL for never
  removed_at    BIGINT             -- a removed job keeps its row, for its incarnations
);

CREATE INDEX idx_jobs_wake_at ON jobs (wake_at) WHERE wake_at IS NOT NULL AND removed_at IS NULL;

-- The ledger: what became of every slot and request. Terminal once.
CREATE TABLE occurrences (
  occurrence_id BIGINT NOT NULL PRIMARY KEY,
  job_id        TEXT COLLATE "C" NOT NULL,
  incarnation   BIGINT NOT NULL,
  kind          TEXT NOT NULL CHECK (kind IN ('scheduled', 'manual', 'backfill')),
  request_id    BIGINT,            -- manual and backfill
  slot          TEXT,              -- scheduled and backfill: what was written
  nominal_at    BIGINT NOT NULL,   -- derived from the slot
  fire_at       BIGINT NOT NULL,   -- after jitter or spread
  merged        TEXT,              -- JSON: other written times that became this occurrence
  cause         TEXT NOT NULL CHECK (cause IN ('scheduled', 'catch-up', 'manual', 'backfill')),
  digest        TEXT NOT NULL REFERENCES definitions (digest),
  lane          TEXT NOT NULL,     -- the session in which it runs
  destination   TEXT,              -- JSON; NULL for history only
  state         TEXT NOT NULL CHECK (state IN ('waiting', 'active', 'done', 'failed', 'cancelled', 'skipped')),
  reason        TEXT,
  accounted_at  BIGINT NOT NULL,
  ended_at      BIGINT,
  CHECK ((kind = 'scheduled') = (request_id IS NULL)),
  CHECK ((kind = 'manual') = (slot IS NULL))
);

CREATE UNIQUE INDEX idx_occurrences_scheduled ON occurrences (job_id, incarnation, slot) WHERE kind = 'scheduled';
CREATE UNIQUE INDEX idx_occurrences_requested ON occurrences (job_id, request_id, coalesce(slot, '')) WHERE kind <> 'scheduled';
CREATE INDEX idx_occurrences_nominal ON occurrences (job_id, nominal_at);

-- Stretches of slots that did not run. Ranges and rows never overlap.
CREATE TABLE occurrence_ranges (
  job_id           TEXT COLLATE "C" NOT NULL,
  incarnation      BIGINT NOT NULL,
  first_nominal_at BIGINT NOT NULL,
  last_nominal_at  BIGINT NOT NULL,
  first_slot       TEXT NOT NULL,
  last_slot        TEXT NOT NULL,
  slots            BIGINT NOT NULL CHECK (slots >= 1),
  reason           TEXT NOT NULL,
  recorded_at      BIGINT NOT NULL,
  PRIMARY KEY (job_id, incarnation, first_nominal_at)
);

CREATE TABLE runs (
  run_id        BIGINT NOT NULL PRIMARY KEY,
  occurrence_id BIGINT NOT NULL UNIQUE REFERENCES occurrences (occurrence_id),
  job_id        TEXT COLLATE "C" NOT NULL,
  lane          TEXT NOT NULL,
  cause         TEXT NOT NULL,
  state         TEXT NOT NULL CHECK (state IN ('queued', 'running', 'backoff', 'done', 'failed', 'cancelled')),
  reason        TEXT,
  due_at        BIGINT NOT NULL,   -- since when it may begin its next attempt
  attempts      BIGINT NOT NULL DEFAULT 0,
  epoch         BIGINT NOT NULL DEFAULT 0,
  worker_id     BIGINT,
  context       TEXT,              -- JSON: the snapshot of a chat, taken once
  started_at    BIGINT,
  ended_at      BIGINT,
  error         TEXT,
  output        TEXT,
  usage         TEXT
);

CREATE INDEX idx_runs_queued ON runs (lane, due_at, job_id) WHERE state = 'queued';
CREATE INDEX idx_runs_running ON runs (run_id) WHERE state = 'running';
CREATE INDEX idx_runs_job ON runs (job_id, run_id);
CREATE INDEX idx_runs_ended ON runs (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE attempts (
  run_id     BIGINT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
  attempt    BIGINT NOT NULL,
  started_at BIGINT NOT NULL,
  ended_at   BIGINT,
  result     TEXT,               -- done, silent, failed:<reason>, interrupted, cancelled
  error      TEXT,
  PRIMARY KEY (run_id, attempt)
);

-- What a person should know about a run, a turn or a part; never silent, never in the way.
CREATE TABLE diagnostics (
  diagnostic_id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  run_id        BIGINT,
  turn_id       BIGINT,
  part_id       BIGINT,
  level         TEXT NOT NULL CHECK (level IN ('info', 'warn')),
  code          TEXT NOT NULL,
  message       TEXT NOT NULL,
  recorded_at   BIGINT NOT NULL
);

CREATE INDEX idx_diagnostics_run ON diagnostics (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX idx_diagnostics_part ON diagnostics (part_id) WHERE part_id IS NOT NULL;

-- The chats of the jobs file, so that commands and confirmations know whose they are.
CREATE TABLE chats (
  session_key TEXT NOT NULL PRIMARY KEY,
  name        TEXT COLLATE "C" NOT NULL,
  chat        TEXT NOT NULL,      -- directory::Chat as JSON
  agent       TEXT NOT NULL,
  removed_at  BIGINT 
);

CREATE UNIQUE INDEX idx_chats_name ON chats (name) WHERE removed_at IS NULL;

-- User turns: an inbound message, and where its answer stands.
CREATE TABLE turns (
  turn_id      BIGINT NOT NULL PRIMARY KEY,
  session_key  TEXT NOT NULL,
  source       TEXT NOT NULL,     -- 'say', 'api' or 'channel'
  text         TEXT NOT NULL,
  state        TEXT NOT NULL CHECK (state IN ('waiting', 'running', 'done', 'failed', 'cancelled')),
  attempts     BIGINT NOT NULL DEFAULT 0,
  epoch        BIGINT NOT NULL DEFAULT 0,
  worker_id    BIGINT,
  entry_id     BIGINT NOT NULL,   -- the user's row
  requested_at BIGINT NOT NULL,
  started_at   BIGINT,
  ended_at     BIGINT,
  error        TEXT,
  usage        TEXT
);

CREATE INDEX idx_turns_waiting ON turns (session_key, turn_id, requested_at) WHERE state = 'waiting';
CREATE INDEX idx_turns_running ON turns (turn_id) WHERE state = 'running';

-- One lane a session: a turn, a run or a delivery at a time. Free where holder is NULL.
CREATE TABLE lanes (
  session_key TEXT NOT NULL PRIMARY KEY,
  epoch       BIGINT NOT NULL,
  holder      TEXT,               -- 'run:<id>', 'turn:<id>' or 'part:<id>'
  worker_id   BIGINT,
  taken_at    BIGINT 
);

CREATE TABLE reset_requests (
  session_key  TEXT NOT NULL PRIMARY KEY,
  requested_at BIGINT NOT NULL
);

-- The outbox: a message is committed with the state change that caused it.
CREATE TABLE outbox (
  message_id  BIGINT NOT NULL PRIMARY KEY,
  producer    TEXT NOT NULL,
  origin      TEXT NOT NULL,
  ordinal     BIGINT NOT NULL,
  session_key TEXT NOT NULL,      -- the lane
  destination TEXT NOT NULL,      -- JSON, frozen
  agent       TEXT NOT NULL,      -- whose words they are
  speaker     TEXT NOT NULL,
  trigger_source TEXT,
  job_id      TEXT COLLATE "C",
  job_name    TEXT,
  zone        TEXT,               -- in which the posting note tells the time
  run_id      BIGINT,
  attempt     BIGINT,
  turn_id     BIGINT,
  on_unknown  TEXT NOT NULL,
  parts       BIGINT NOT NULL,
  enqueued_at BIGINT NOT NULL
);

CREATE INDEX idx_outbox_run ON outbox (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX idx_outbox_turn ON outbox (turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX idx_outbox_job ON outbox (job_id) WHERE job_id IS NOT NULL;

CREATE TABLE outbox_parts (
  part_id            BIGINT NOT NULL PRIMARY KEY,
  message_id         BIGINT NOT NULL REFERENCES outbox (message_id),
  part               BIGINT NOT NULL,    -- from 1
  session_key        TEXT NOT NULL,
  begun              BOOLEAN NOT NULL,   -- goes before everything else of its lane
  idempotency_key    TEXT NOT NULL UNIQUE,
  text               TEXT,               -- exactly as sent; NULL where there is no honest text
  native             TEXT,               -- JSON; the channel's own form, where it is not text
  state              TEXT NOT NULL CHECK (state IN ('pending', 'sending', 'confirmed', 'unknown', 'failed', 'cancelled')),
  reason             TEXT,
  why                TEXT,               -- the channel's last answer in words
  attempts           BIGINT NOT NULL DEFAULT 0,
  in_doubt           BOOLEAN NOT NULL DEFAULT FALSE,
  epoch              BIGINT,             -- the lease of the attempt under way; NULL between tries
  first_attempt_at   BIGINT,
  retried_at         BIGINT,             -- when a person had it sent again
  next_attempt_at    BIGINT NOT NULL,
  entry_id           BIGINT,             -- the pending row of a turn's reply
  channel_message_id TEXT,
  shown_at           BIGINT,
  settled_at         BIGINT,
  resolution         TEXT,               -- JSON: evidence that waits for the lane's turn boundary
  UNIQUE (message_id, part)
);

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
  stopped_at  BIGINT,
  why         TEXT
);

-- A gateway may have these three already, with fewer columns: each gets what is missing, and keeps
-- every row. Column by column, so that a table of any age becomes whole.
CREATE TABLE IF NOT EXISTS ctx_sessions (
  session_id  TEXT NOT NULL PRIMARY KEY,
  session_key TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS ctx_session_entries (
  id         BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  session_id TEXT NOT NULL,
  seq        BIGINT NOT NULL,
  role       TEXT NOT NULL,
  message    TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS ctx_turns (
  id         BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  session_id TEXT NOT NULL,
  turn_idx   BIGINT NOT NULL   -- 1-based count of user turns
);

ALTER TABLE ctx_sessions
  ADD COLUMN IF NOT EXISTS agent_id   TEXT,
  ADD COLUMN IF NOT EXISTS created_at TIMESTAMPTZ NOT NULL DEFAULT now();

ALTER TABLE ctx_session_entries
  ADD COLUMN IF NOT EXISTS entry_type         TEXT NOT NULL DEFAULT 'message',
  ADD COLUMN IF NOT EXISTS content_kind       TEXT,
  ADD COLUMN IF NOT EXISTS raw_entry          JSON,
  ADD COLUMN IF NOT EXISTS raw_line           BYTEA,
  ADD COLUMN IF NOT EXISTS created_at         TIMESTAMPTZ NOT NULL DEFAULT 'epoch',
  ADD COLUMN IF NOT EXISTS trigger_source     TEXT,
  ADD COLUMN IF NOT EXISTS is_automated       BOOLEAN,
  ADD COLUMN IF NOT EXISTS sender_display     TEXT,
  ADD COLUMN IF NOT EXISTS sender_id_raw      TEXT,
  ADD COLUMN IF NOT EXISTS visibility         TEXT,
  ADD COLUMN IF NOT EXISTS chat_key           TEXT,
  ADD COLUMN IF NOT EXISTS channel_message_id TEXT,
  ADD COLUMN IF NOT EXISTS shown_at           TIMESTAMPTZ,
  ADD COLUMN IF NOT EXISTS origin             TEXT,
  ADD COLUMN IF NOT EXISTS posted_by_job      TEXT,
  ADD COLUMN IF NOT EXISTS posting_note       TEXT,
  ADD COLUMN IF NOT EXISTS turn_id            BIGINT,
  ADD COLUMN IF NOT EXISTS run_id             BIGINT,
  ADD COLUMN IF NOT EXISTS attempt            BIGINT,
  ADD COLUMN IF NOT EXISTS idempotency_key    TEXT;

ALTER TABLE ctx_turns
  ADD COLUMN IF NOT EXISTS turn_id    BIGINT,
  ADD COLUMN IF NOT EXISTS created_at TIMESTAMPTZ NOT NULL DEFAULT now();

-- Sessions of one key are its generations, in the order in which they began; and each goes on after
-- its last row.
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_attribute
      WHERE attrelid = 'ctx_sessions'::regclass AND attname = 'generation' AND NOT attisdropped) THEN
    ALTER TABLE ctx_sessions ADD COLUMN generation BIGINT NOT NULL DEFAULT 0;
    UPDATE ctx_sessions AS s SET generation = n.generation
    FROM (SELECT o.session_id, row_number() OVER (PARTITION BY o.session_key ORDER BY
              (SELECT min(e.id) FROM ctx_session_entries AS e WHERE e.session_id = o.session_id) NULLS LAST,
              o.session_id) - 1 AS generation
          FROM ctx_sessions AS o) AS n
    WHERE n.session_id = s.session_id;
  END IF;
  IF NOT EXISTS (SELECT FROM pg_attribute
      WHERE attrelid = 'ctx_sessions'::regclass AND attname = 'next_seq' AND NOT attisdropped) THEN
    ALTER TABLE ctx_sessions ADD COLUMN next_seq BIGINT NOT NULL DEFAULT 1;
    UPDATE ctx_sessions AS s SET next_seq = 1 + coalesce((SELECT max(e.seq)
      FROM ctx_session_entries AS e WHERE e.session_id = s.session_id), 0);
  END IF;
END
$$;

CREATE UNIQUE INDEX idx_ctx_sessions_key ON ctx_sessions (session_key, generation);
CREATE UNIQUE INDEX idx_ctx_session_entries_seq ON ctx_session_entries (session_id, seq);
CREATE INDEX idx_ctx_session_entries_trigger_source ON ctx_session_entries (trigger_source) WHERE trigger_source IS NOT NULL;
CREATE INDEX idx_ctx_session_entries_turn ON ctx_session_entries (turn_id, seq) WHERE turn_id IS NOT NULL;
CREATE UNIQUE INDEX idx_ctx_session_entries_message_id ON ctx_session_entries (chat_key, channel_message_id) WHERE channel_message_id IS NOT NULL;
CREATE UNIQUE INDEX idx_ctx_turns_idx ON ctx_turns (session_id, turn_idx);
