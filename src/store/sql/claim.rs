//! Taking lanes: an attempt of a run or a turn begins, a part is marked `sending`.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::Serialize;

use crate::{
    policy::Grant,
    store::{Claimed, Conflict},
};

use super::{
    connection::Conn,
    entries::{Book, Shown},
    failure::Fallible,
    ids::{Ids, Kind},
    lanes::{part_holder, run_holder, turn_holder},
    rows::{At, Columns, micros, rows_for, text_instant, write_rows},
    statement::{Statement, over_numbers, over_rows, over_texts},
    writer::ClaimItem,
};

mod late;
mod load;
mod sharing;

use late::Lateness;
pub(super) use load::{CLAIMED_PARTS, CLAIMED_RUNS, claimed_part, claimed_run, posted_by};
use sharing::Sharing;

const HELD: Statement = over_texts!(
    "SELECT l.session_key FROM",
    "\
JOIN lanes AS l ON l.session_key = x.id
WHERE l.holder IS NOT NULL"
);

const TAKE_LANES: Statement = over_rows!(
    [session_key text, epoch bigint, holder text, worker_id bigint, now bigint]
    "\
INSERT INTO lanes (session_key, epoch, holder, worker_id, taken_at)
SELECT x.session_key, x.epoch, x.holder, x.worker_id, x.now FROM",
    "\
WHERE true
ON CONFLICT (session_key) DO UPDATE SET epoch = excluded.epoch, holder = excluded.holder,
  worker_id = excluded.worker_id, taken_at = excluded.taken_at"
);

const BEGIN_RUNS: Statement = over_rows!(
    [id bigint, epoch bigint, worker_id bigint, now bigint]
    "\
UPDATE runs SET state = 'running', attempts = runs.attempts + 1, epoch = x.epoch,
  worker_id = x.worker_id, started_at = coalesce(runs.started_at, x.now)
FROM",
    "WHERE runs.run_id = x.id"
);

const BEGIN_ATTEMPTS: Statement = over_rows!(
    [id bigint, attempt bigint, now bigint]
    "\
INSERT INTO attempts (run_id, attempt, started_at)
SELECT x.id, x.attempt, x.now FROM",
    ""
);

const BEGIN_TURNS: Statement = over_rows!(
    [id bigint, epoch bigint, worker_id bigint, now bigint]
    "\
UPDATE turns SET state = 'running', attempts = turns.attempts + 1, epoch = x.epoch,
  worker_id = x.worker_id, started_at = coalesce(turns.started_at, x.now)
FROM",
    "WHERE turns.turn_id = x.id"
);

const COUNT_TURNS: Statement = over_rows!(
    [session_id text, turn_id bigint, created_at timestamptz]
    "\
INSERT INTO ctx_turns (session_id, turn_idx, turn_id, created_at)
SELECT x.session_id,
  1 + coalesce((SELECT max(t.turn_idx) FROM ctx_turns AS t WHERE t.session_id = x.session_id), 0),
  x.turn_id, x.created_at
FROM",
    "\
WHERE NOT EXISTS (SELECT 1 FROM turns AS u JOIN ctx_session_entries AS e ON e.id = u.entry_id
  WHERE u.turn_id = x.turn_id AND e.is_automated)"
);

const BEGIN_PARTS: Statement = over_rows!(
    [id bigint, epoch bigint, worker_id bigint, now bigint]
    "\
UPDATE outbox_parts SET state = 'sending', attempts = outbox_parts.attempts + 1, epoch = x.epoch,
  worker_id = x.worker_id,
  first_attempt_at = coalesce(outbox_parts.first_attempt_at, x.now)
FROM",
    "WHERE outbox_parts.part_id = x.id"
);

// The rest of a message that was begun goes before everything else of its lane.
const BEGIN_MESSAGES: Statement = over_numbers!(
    "\
UPDATE outbox_parts SET begun = TRUE
FROM",
    "WHERE outbox_parts.message_id = x.id AND NOT outbox_parts.begun"
);

/// A lane that is taken, with what its holder is.
#[derive(Debug, Serialize)]
pub(super) struct Taken {
    pub(super) session_key: String,
    pub(super) holder: String,
    pub(super) id: i64,
    pub(super) epoch: i64,
    pub(super) worker_id: i64,
    pub(super) attempt: u32,
    pub(super) now: i64,
}

#[derive(Debug, Serialize)]
struct CountedTurn {
    session_id: String,
    turn_id: i64,
    created_at: String,
}

/// What a batch begins, by kind.
#[derive(Debug, Default)]
struct Begun {
    lanes: Vec<Taken>,
    runs: Vec<usize>,
    turns: Vec<usize>,
    parts: Vec<usize>,
    messages: Vec<i64>,
    counted: Vec<CountedTurn>,
    late: Lateness,
}

/// Takes the lanes of runs that are stored as running already, and writes their first attempts.
pub(super) async fn begin_runs(conn: &mut Conn, lanes: &[Taken]) -> Fallible<()> {
    write_rows(conn, TAKE_LANES, lanes).await?;
    write_rows(conn, BEGIN_ATTEMPTS, lanes).await
}

/// Takes lanes; one result an item.
pub(super) async fn claim(
    conn: &mut Conn,
    items: Vec<At<ClaimItem>>,
) -> Fallible<Vec<Result<Claimed, Conflict>>> {
    let mut held = held_lanes(conn, &items).await?;
    let mut candidates = load::Candidates::load(conn, &items).await?;
    let mut ids = Ids::take(conn, &[(Kind::Epoch, items.len())]).await?;
    let mut book = Book::open(conn, &sessions_of(&items)).await?;
    let mut begun = Begun::default();
    let mut sharing = Sharing::load(conn, &items).await?;
    let mut results = Vec::with_capacity(items.len());
    for item in &items {
        let lane = item.item.1.session_key.as_str();
        if let Err(conflict) = sharing.allows(item) {
            results.push(Err(conflict));
            continue;
        }
        if held.contains(lane) {
            results.push(Err(Conflict::LaneTaken));
            continue;
        }
        let epoch = ids.next(Kind::Epoch);
        let claimed = candidates.grant(item, epoch);
        match &claimed {
            Ok(Claimed::Withheld(part)) => begun.late.withhold(part, item.now),
            Ok(claimed) => {
                held.insert(lane.to_owned());
                sharing.note(claimed);
                begun.add(item, claimed, epoch, &candidates, &mut book);
            }
            Err(_) => {}
        }
        results.push(claimed);
    }
    begun.write(conn).await?;
    book.write(conn).await?;
    Ok(results)
}

async fn held_lanes(conn: &mut Conn, items: &[At<ClaimItem>]) -> Fallible<HashSet<String>> {
    let keys: BTreeSet<&str> = items
        .iter()
        .map(|item| item.item.1.session_key.as_str())
        .collect();
    let keys: Vec<&str> = keys.into_iter().collect();
    let rows = rows_for(conn, HELD, &keys).await?;
    rows.iter()
        .map(|row| Columns::of(row, "lanes", "session_key").get("session_key"))
        .collect()
}

fn sessions_of(items: &[At<ClaimItem>]) -> BTreeSet<String> {
    let requests = items.iter().map(|item| &item.item.1);
    requests
        .filter(|request| matches!(request.grant, Grant::Turn(_)))
        .map(|request| request.session_key.as_str().to_owned())
        .collect()
}

impl Begun {
    fn add(
        &mut self,
        item: &At<ClaimItem>,
        claimed: &Claimed,
        epoch: i64,
        candidates: &load::Candidates,
        book: &mut Book,
    ) {
        let (by, request) = &item.item;
        let place = self.lanes.len();
        let (holder, id, attempt) = match claimed {
            Claimed::Run(run) => {
                self.runs.push(place);
                (run_holder(run.run_id.0), run.run_id.0, run.attempt)
            }
            Claimed::Turn(turn) => {
                self.turns.push(place);
                if let Some(entry) = candidates.pending_entry(turn.turn_id.0) {
                    self.place_user_row(item, turn.turn_id.0, entry, book);
                }
                (turn_holder(turn.turn_id.0), turn.turn_id.0, turn.attempt)
            }
            Claimed::Part(part) => {
                self.parts.push(place);
                self.messages.push(part.message_id.0);
                self.late.sent(part, item.now);
                (part_holder(part.part_id.0), part.part_id.0, 0)
            }
            Claimed::Withheld(_) => return,
        };
        self.lanes.push(Taken {
            session_key: request.session_key.as_str().to_owned(),
            holder,
            id,
            epoch,
            worker_id: by.worker.0,
            attempt,
            now: micros(item.now),
        });
    }

    /// The user's row becomes history when its turn first takes the lane, and counts then.
    fn place_user_row(&mut self, item: &At<ClaimItem>, turn_id: i64, entry: i64, book: &mut Book) {
        let shown = Shown {
            id: entry,
            ..Shown::default()
        };
        let place = book.show(item.item.1.session_key.as_str(), shown, item.now);
        self.counted.push(CountedTurn {
            session_id: place.session_id,
            turn_id,
            created_at: text_instant(item.now),
        });
    }

    async fn write(self, conn: &mut Conn) -> Fallible<()> {
        let of = |places: &[usize]| -> Vec<&Taken> {
            places.iter().filter_map(|n| self.lanes.get(*n)).collect()
        };
        write_rows(conn, TAKE_LANES, &self.lanes).await?;
        write_rows(conn, BEGIN_RUNS, &of(&self.runs)).await?;
        write_rows(conn, BEGIN_ATTEMPTS, &of(&self.runs)).await?;
        write_rows(conn, BEGIN_TURNS, &of(&self.turns)).await?;
        write_rows(conn, BEGIN_PARTS, &of(&self.parts)).await?;
        write_rows(conn, BEGIN_MESSAGES, &self.messages).await?;
        write_rows(conn, COUNT_TURNS, &self.counted).await?;
        self.late.write(conn).await
    }
}

/// Things found by id, of one kind.
type Found<T> = HashMap<i64, T>;
