//! Ids from the counters, a block for each kind that a transaction needs.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    connection::Conn,
    failure::Fallible,
    rows::rows_for,
    statement::{Statement, over_rows},
};

const TAKE: Statement = over_rows!(
    [name text, wanted bigint]
    "\
UPDATE id_counters SET next_id = id_counters.next_id + x.wanted
FROM",
    "\
WHERE id_counters.name = x.name
RETURNING id_counters.name, id_counters.next_id"
);

/// What ids are counted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Occurrence,
    Run,
    Turn,
    Message,
    Part,
    Request,
    Epoch,
    Worker,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Occurrence => "occurrence",
            Self::Run => "run",
            Self::Turn => "turn",
            Self::Message => "message",
            Self::Part => "part",
            Self::Request => "request",
            Self::Epoch => "epoch",
            Self::Worker => "worker",
        }
    }
}

/// How many ids of a kind are taken.
#[derive(Debug, Serialize)]
struct Wanted {
    name: &'static str,
    wanted: usize,
}

/// Blocks of ids that belong to one transaction. What it does not use is never used.
#[derive(Debug, Default)]
pub(super) struct Ids {
    next: BTreeMap<Kind, i64>,
}

impl Ids {
    /// Takes so many ids of each kind.
    pub(super) async fn take(conn: &mut Conn, counts: &[(Kind, usize)]) -> Fallible<Self> {
        let wanted: Vec<Wanted> = counts
            .iter()
            .filter(|(_, wanted)| *wanted > 0)
            .map(|(kind, wanted)| Wanted {
                name: kind.as_str(),
                wanted: *wanted,
            })
            .collect();
        let mut ids = Self::default();
        for row in rows_for(conn, TAKE, &wanted).await? {
            let name: String = row.try_get("name")?;
            let end: i64 = row.try_get("next_id")?;
            for (kind, count) in counts.iter().filter(|(kind, _)| kind.as_str() == name) {
                let count = i64::try_from(*count).unwrap_or(0);
                ids.next.insert(*kind, end - count);
            }
        }
        Ok(ids)
    }

    /// Takes one id.
    pub(super) async fn take_one(conn: &mut Conn, kind: Kind) -> Fallible<i64> {
        let mut ids = Self::take(conn, &[(kind, 1)]).await?;
        Ok(ids.next(kind))
    }

    /// The next id of a block.
    pub(super) fn next(&mut self, kind: Kind) -> i64 {
        let next = self.next.entry(kind).or_insert(0);
        let id = *next;
        *next += 1;
        id
    }
}
