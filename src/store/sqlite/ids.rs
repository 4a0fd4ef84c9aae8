//! Ids from the counters, a block for each kind that a transaction needs.

use std::collections::BTreeMap;

use sqlx::{Row, SqliteConnection};

use super::failure::Fallible;

const TAKE: &str = "\
UPDATE id_counters SET next_id = next_id + x.value
FROM json_each($1) AS x WHERE id_counters.name = x.key
RETURNING name, next_id";

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

/// Blocks of ids that belong to one transaction. What it does not use is never used.
#[derive(Debug, Default)]
pub(super) struct Ids {
    next: BTreeMap<Kind, i64>,
}

impl Ids {
    /// Takes so many ids of each kind.
    pub(super) async fn take(
        conn: &mut SqliteConnection,
        counts: &[(Kind, usize)],
    ) -> Fallible<Self> {
        let wanted: BTreeMap<&str, usize> = counts
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(kind, count)| (kind.as_str(), *count))
            .collect();
        let mut ids = Self::default();
        if wanted.is_empty() {
            return Ok(ids);
        }
        let json = serde_json::to_string(&wanted)?;
        let rows = sqlx::query(TAKE).bind(json).fetch_all(&mut *conn).await?;
        for row in rows {
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
    pub(super) async fn take_one(conn: &mut SqliteConnection, kind: Kind) -> Fallible<i64> {
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
