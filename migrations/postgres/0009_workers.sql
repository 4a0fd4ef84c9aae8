-- Several workers share a database: each holds a lease, by the database's clock.
ALTER TABLE workers ADD COLUMN role TEXT NOT NULL DEFAULT 'worker' CHECK (role IN ('worker', 'errand'));
ALTER TABLE workers ADD COLUMN lease BIGINT;         -- how long it is renewed for; NULL for none
ALTER TABLE workers ADD COLUMN lease_until BIGINT;   -- over then, unless it is renewed
ALTER TABLE workers ADD COLUMN zone_release TEXT;    -- of its zone data, where it has a name

CREATE INDEX idx_workers_living ON workers (worker_id) WHERE stopped_at IS NULL;

-- Whose lease the attempt under way to send a part is made under.
ALTER TABLE outbox_parts ADD COLUMN worker_id BIGINT;

-- A worker that is about to decide about a job says so for a moment, so that the others decide about
-- other ones. It holds for this version of the job, and binds nobody.
ALTER TABLE jobs ADD COLUMN claimed_by BIGINT;
ALTER TABLE jobs ADD COLUMN claimed_version BIGINT;
ALTER TABLE jobs ADD COLUMN claimed_until BIGINT;    -- by the database's clock

-- What was applied of each jobs file last, and everything that was applied of it before: a worker
-- whose copy is an older one undoes nothing.
CREATE TABLE jobs_files (
  file       TEXT NOT NULL PRIMARY KEY,
  revision   BIGINT NOT NULL,   -- raised by every other content
  digest     TEXT NOT NULL,
  applied_at BIGINT NOT NULL
);

CREATE TABLE jobs_file_digests (
  file     TEXT NOT NULL,
  digest   TEXT NOT NULL,
  revision BIGINT NOT NULL,     -- the last one with this content
  PRIMARY KEY (file, digest)
);
