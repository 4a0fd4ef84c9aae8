//! Jobs files: which content of each is in force, and that no other is applied behind it.

use jiff::Timestamp;

use crate::store::{Accepts, Conflict, FileToApply, FileVersion, JobCommit, Stamped, Written};

use super::{
    commit,
    connection::Conn,
    failure::Fallible,
    jobs,
    rows::{At, Columns, micros},
    statement::{Statement, query},
};

const IN_FORCE: Statement =
    Statement::common("SELECT file, revision, digest, applied_at FROM jobs_files WHERE file = $1");

const IS_KNOWN: Statement =
    Statement::common("SELECT revision FROM jobs_file_digests WHERE file = $1 AND digest = $2");

const PUT_IN_FORCE: Statement = Statement::common(
    "\
INSERT INTO jobs_files (file, revision, digest, applied_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (file) DO UPDATE SET revision = excluded.revision, digest = excluded.digest,
  applied_at = excluded.applied_at",
);

const REMEMBER: Statement = Statement::common(
    "\
INSERT INTO jobs_file_digests (file, digest, revision) VALUES ($1, $2, $3)
ON CONFLICT (file, digest) DO UPDATE SET revision = excluded.revision",
);

/// The content of a file that is in force.
struct InForce {
    revision: i64,
    digest: String,
    applied_at: Timestamp,
}

async fn in_force(conn: &mut Conn, file: &str) -> Fallible<Option<InForce>> {
    let row = query(IN_FORCE).bind(file).fetch_optional(&mut *conn);
    let Some(row) = row.await? else {
        return Ok(None);
    };
    let row = Columns::of(&row, "jobs_files", "file");
    Ok(Some(InForce {
        revision: row.get("revision")?,
        digest: row.get("digest")?,
        applied_at: row.instant("applied_at")?,
    }))
}

/// Puts a content in force, unless it is known to be older than the one that is.
pub(super) async fn stamp(conn: &mut Conn, new: FileToApply, now: Timestamp) -> Fallible<Stamped> {
    let present = in_force(conn, &new.file).await?;
    let revision = match &present {
        Some(present) if present.digest == new.digest => present.revision,
        Some(present) => {
            if is_older(conn, &new, present).await? {
                return Ok(Stamped::Older {
                    replaced_at: present.applied_at,
                });
            }
            present.revision + 1
        }
        None => 1,
    };
    if present.is_none_or(|present| present.revision != revision) {
        let put = query(PUT_IN_FORCE).bind(&new.file).bind(revision);
        let put = put.bind(&new.digest).bind(micros(now));
        put.execute(&mut *conn).await?;
        let remember = query(REMEMBER).bind(&new.file).bind(&new.digest);
        remember.bind(revision).execute(&mut *conn).await?;
    }
    jobs::set_chats(conn, &new.chats, now).await?;
    Ok(Stamped::Newest(FileVersion {
        file: new.file,
        revision,
    }))
}

/// Whether a content was in force before the present one, and was not edited since.
async fn is_older(conn: &mut Conn, new: &FileToApply, present: &InForce) -> Fallible<bool> {
    let edited_at = match new.accepts {
        Accepts::Any => return Ok(false),
        Accepts::NotOlder(edited_at) => edited_at,
    };
    if edited_at.is_some_and(|edited_at| edited_at > present.applied_at) {
        return Ok(false);
    }
    let known = query(IS_KNOWN).bind(&new.file).bind(&new.digest);
    Ok(known.fetch_optional(&mut *conn).await?.is_some())
}

/// Commits what a file's content has led to, while it is in force.
pub(super) async fn commit(
    conn: &mut Conn,
    version: FileVersion,
    batch: Vec<JobCommit>,
    now: Timestamp,
) -> Fallible<Result<Vec<Result<Written, Conflict>>, Conflict>> {
    let present = in_force(conn, &version.file).await?;
    if present.is_none_or(|present| present.revision != version.revision) {
        return Ok(Err(Conflict::StaleVersion));
    }
    let items = batch.into_iter().map(|item| At { item, now }).collect();
    commit::commit(conn, items).await.map(Ok)
}
